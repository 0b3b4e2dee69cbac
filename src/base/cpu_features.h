// What this CPU can do, as far as weir's kernels care.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir {

// Instruction sets that the CPU kernels are written for, weakest first.
enum class Isa { kPortable, kAvx2, kAvx512, kAvx512Vnni, kAvx512Amx };
std::span<const Isa> all_isas();  // weakest first

struct CpuFeatures {
  std::string model;         // as the CPU names itself
  int hardware_threads = 1;  // threads this process may run on
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_vnni = false;  // avx512 and VNNI
  bool avx512_amx = false;   // avx512_vnni, AMX with int8, and the system lets this process use its tiles

  Isa best_isa() const;
  bool supports(Isa isa) const;
};

const CpuFeatures& cpu_features();

std::string_view isa_name(Isa isa);  // "portable", "avx2", "avx512", "avx512-vnni", "avx512-amx"
Result<Isa> parse_isa(std::string_view name);

}  // namespace weir
