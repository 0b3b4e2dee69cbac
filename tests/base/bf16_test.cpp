#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weir::test {
namespace {

TEST(Bfloat16, every_value_survives_the_round_trip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 x{static_cast<uint16_t>(bits)};
    const float f = to_float(x);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(f))));
    } else {
      ASSERT_EQ(to_bf16(f).bits, x.bits);
    }
  }
}

TEST(Bfloat16, rounds_to_nearest_and_ties_to_even) {
  const float one = 1.0f, step = 0x1p-7f;
  EXPECT_EQ(to_float(to_bf16(one + 0.49f * step)), one);
  EXPECT_EQ(to_float(to_bf16(one + 0.51f * step)), one + step);
  EXPECT_EQ(to_float(to_bf16(one + 0.5f * step)), one);             // down to even
  EXPECT_EQ(to_float(to_bf16(one + 1.5f * step)), one + 2 * step);  // up to even
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), INFINITY);
}

}  // namespace
}  // namespace weir::test
