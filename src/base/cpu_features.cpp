#include "base/cpu_features.h"

#include <sched.h>

#include <array>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weir {
namespace {

constexpr std::array kIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

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
  }
  return false;
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
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (isa_name(isa) == name) return isa;
  }
  return Error{Code::kInvalidArgument, "unknown instruction set '" + std::string(name) + "'",
               "one of portable, avx2, avx512, avx512-vnni"};
}

}  // namespace weir
