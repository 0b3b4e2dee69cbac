// Random weights and inputs of any shape and encoding, from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/affine.h"

namespace weir::bench {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}

  uint64_t bits();
  float uniform(float low, float high);
  float normal();
  int64_t below(int64_t count) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(count)); }

  // Normal values, rounded to bf16 so that every backend sees the same ones.
  std::vector<float> values(int64_t count, float deviation = 1.0f, float mean = 0.0f);
  // Entries of mean 0 and variance 1 / cols.
  OwnedMatrix matrix(int64_t rows, int64_t cols, const Encoding& encoding);

 private:
  uint64_t state_;
};

inline constexpr Encoding kFourBit{Dtype::kBf16, 4, 64};
inline constexpr Encoding kEightBit{Dtype::kBf16, 8, 64};

}  // namespace weir::bench
