#include "base/cpu_features.h"

#include <sched.h>

#include <array>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace weir {
namespace {

constexpr std::array kIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAvx512Amx};

int allowed_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

#if defined(__x86_64__)
std::string brand_string() {
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* w = &words[4 * i];
    if (__get_cpuid(0x80000002u + i, &w[0], &w[1], &w[2], &w[3]) == 0) return "unknown";
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  return text.data();
}

// CPUID leaf 7: AMX-TILE and AMX-INT8 are bits 24 and 25 of EDX.
bool has_amx_int8() {
  constexpr unsigned kBoth = 3u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBoth) == kBoth;
}

// Linux gives a process the 8 KiB of tile registers only when it asks; all its threads have them from then
// on. A kernel that does not know the question, or a system that forbids it, says no.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr int kTileData = 18;               // the number of that part of the state
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

CpuFeatures detect() {
  CpuFeatures f;
  f.hardware_threads = allowed_threads();
#if defined(__x86_64__)
  __builtin_cpu_init();
  f.model = brand_string();
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  f.avx512_amx = f.avx512_vnni && has_amx_int8() && may_use_tiles();
#else
  f.model = "unknown";
#endif
  return f;
}

}  // namespace

Isa CpuFeatures::best_isa() const {
  Isa best = Isa::kPortable;
  for (const Isa isa : kIsas) {
    if (supports(isa)) best = isa;
  }
  return best;
}

bool CpuFeatures::supports(Isa isa) const {
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Vnni:
      return avx512_vnni;
    case Isa::kAvx512Amx:
      return avx512_amx;
  }
  return false;
}

std::span<const Isa> all_isas() {
  return kIsas;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
    case Isa::kAvx512Amx:
      return "avx512-amx";
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (isa_name(isa) == name) return isa;
  }
  return Error{Code::kInvalidArgument, "unknown instruction set '" + std::string(name) + "'",
               "one of portable, avx2, avx512, avx512-vnni, avx512-amx"};
}

}  // namespace weir
