// What the tests of the CPU's attention and delta rule share: kernel tables, buffers, random numbers, and
// scratch memory with a guard behind it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/random.h"
#include "kernels/cpu/kernels.h"
#include "kernels/memory.h"
#include "kernels/state.h"
#include "kernels/weights.h"

namespace weir::test {

inline constexpr double kU = 0x1p-24;  // a float32 rounding is at most this, relative to its result

struct NamedKernels {
  std::string name;
  const cpu::CpuKernels* kernels;
};

// The tables that this machine can run, the portable one first.
inline std::vector<NamedKernels> kernel_tables() {
  std::vector<NamedKernels> tables{{"portable", &cpu::portable::kKernels}};
#if defined(__x86_64__)
  if (cpu_features().supports(Isa::kAvx2)) tables.push_back({"avx2", &cpu::avx2::kKernels});
  if (cpu_features().supports(Isa::kAvx512)) tables.push_back({"avx512", &cpu::avx512::kKernels});
  if (cpu_features().supports(Isa::kAvx512Vnni)) {
    tables.push_back({"avx512-vnni", &cpu::avx512_vnni::kKernels});
  }
  if (cpu_features().supports(Isa::kAvx512Amx)) tables.push_back({"avx512-amx", &cpu::avx512_amx::kKernels});
#endif
  return tables;
}

inline const cpu::CpuKernels& best_kernels() {
  return *kernel_tables().back().kernels;
}

inline Buffer zeroed(size_t bytes) {
  void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(data, 0, bytes);
  return {data, bytes, [](void* p, size_t) { std::free(p); }};
}

// Uniform random numbers, the same in every run.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  float between(float low, float high) {
    return low + (high - low) * random_uniform({seed_, 0, 0, next_++, Purpose::kSynthetic});
  }
  int64_t below(int64_t count) { return static_cast<int64_t>(between(0, 1) * static_cast<float>(count)); }
  std::vector<float> floats(int64_t count, float low, float high) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = between(low, high);
    return values;
  }
  Vector vector(int64_t count, float low, float high) {
    Vector v{zeroed(static_cast<size_t>(count) * sizeof(float)), count};
    for (int64_t i = 0; i < count; ++i) v.values.floats()[i] = between(low, high);
    return v;
  }
  // Sizes that add up to `total`.
  std::vector<int64_t> cuts(int64_t total, int64_t largest) {
    std::vector<int64_t> sizes;
    while (total > 0) {
      sizes.push_back(std::min(total, 1 + below(largest)));
      total -= sizes.back();
    }
    return sizes;
  }

 private:
  uint64_t seed_;
  uint32_t next_ = 0;
};

// Scratch memory full of NaNs, and behind it a guard that must survive.
class GuardedScratch {
 public:
  explicit GuardedScratch(size_t bytes) : bytes_(bytes), memory_(zeroed(bytes + kGuard)) {
    std::memset(memory_.data(), 0xff, bytes + kGuard);
  }
  ~GuardedScratch() {
    const auto* guard = static_cast<const unsigned char*>(memory_.data()) + bytes_;
    for (size_t i = 0; i < kGuard; ++i) EXPECT_EQ(guard[i], 0xff) << "scratch overrun at byte " << i;
  }
  void* data() const { return memory_.data(); }

 private:
  static constexpr size_t kGuard = 4096;
  size_t bytes_;
  Buffer memory_;
};

inline std::vector<float> poisoned(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
}

inline Rows rows_of(std::vector<float>& values, int64_t cols) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols, Dtype::kF32};
}

inline void expect_same_bits(std::span<const float> a, std::span<const float> b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << what << ": element " << i << " is " << a[i] << " and " << b[i];
  }
}

}  // namespace weir::test
