#include "checkpoint/finite.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weir {
namespace {

struct Pattern {
  Dtype dtype;
  size_t size;
  std::vector<uint32_t> finite;      // bit patterns, largest finite value and smallest subnormal among them
  std::vector<uint32_t> not_finite;  // infinities, quiet and signalling NaN
};

const Pattern kPatterns[] = {
    {Dtype::kBf16, 2, {0, 0x8000, 0x7f7f, 0xff7f, 1, 0x3f80}, {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff}},
    {Dtype::kF16, 2, {0, 0x8000, 0x7bff, 0xfbff, 1, 0x3c00}, {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}},
    {Dtype::kF32,
     4,
     {0, 0x80000000, 0x7f7fffff, 0xff7fffff, 1},
     {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001}},
};

TEST(Finite, FindsTheFirstBadValueWhereverItIs) {
  for (const Pattern& pattern : kPatterns) {
    constexpr int64_t kCount = 10'000;
    std::vector<std::byte> bytes(1 + kCount * pattern.size);
    std::byte* data = bytes.data() + 1;  // odd on purpose
    const auto put = [&](int64_t i, uint32_t word) {
      std::memcpy(data + static_cast<size_t>(i) * pattern.size, &word, pattern.size);
    };
    for (int64_t i = 0; i < kCount; ++i)
      put(i, pattern.finite[static_cast<size_t>(i) % pattern.finite.size()]);
    EXPECT_EQ(first_non_finite(pattern.dtype, data, kCount), std::nullopt);
    put(kCount - 1, pattern.not_finite[0]);
    for (const int64_t place : {kCount - 1, int64_t{8192}, int64_t{4096}, int64_t{4095}, int64_t{0}}) {
      for (const uint32_t word : pattern.not_finite) {
        put(place, word);
        EXPECT_EQ(first_non_finite(pattern.dtype, data, kCount), place) << dtype_name(pattern.dtype) << word;
      }
    }
    EXPECT_EQ(first_non_finite(pattern.dtype, data, 0), std::nullopt);
  }
}

}  // namespace
}  // namespace weir
