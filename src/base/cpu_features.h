// What this CPU can do, as far as weir's kernels care.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir {

// Instruction sets that the CPU kernels are written for, weakest first.
enum class Isa { kPortable, kAvx2, kAvx512, kAvx512Vnni };

struct CpuFeatures {
  std::string model;         // as the CPU names itself
  int hardware_threads = 1;  // threads this process may run on
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_vnni = false;  // avx512 and VNNI

  Isa best_isa() const;
  bool supports(Isa isa) const;
};

const CpuFeatures& cpu_features();

std::string_view isa_name(Isa isa);  // "portable", "avx2", "avx512", "avx512-vnni"
Result<Isa> parse_isa(std::string_view name);

}  // namespace weir
