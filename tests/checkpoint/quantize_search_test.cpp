// The search for scales against an exhaustive one in float64.
#include "checkpoint/quantize_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "base/random.h"
#include "checkpoint/affine.h"

namespace weir {
namespace {

constexpr size_t kGroup = 32;

// Sums of four uniforms: a bell of some outliers, as weights have them.
std::vector<float> bell(uint32_t which) {
  std::vector<float> values(kGroup);
  for (uint32_t i = 0; i < kGroup; ++i) {
    float sum = 0;
    for (uint32_t k = 0; k < 4; ++k) sum += random_uniform({which, k, 0, i, Purpose::kSynthetic}) - 0.5f;
    values[i] = static_cast<float>(to_float(to_bf16(sum)));
  }
  return values;
}

// Error of the nearest levels in float64.
double least_error(const std::vector<float>& values, const std::vector<float>& weights, int bits,
                   double scale, double bias) {
  const double levels = (1 << bits) - 1;
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]);
    const double q = std::clamp(std::nearbyint((x - bias) / scale), 0.0, levels);
    const double off = x - (scale * q + bias);
    total += (weights.empty() ? 1.0 : static_cast<double>(weights[i])) * off * off;
  }
  return total;
}

// The least error over a fine grid of both ends of the range.
double exhaustive(const std::vector<float>& values, const std::vector<float>& weights, int bits) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double left = static_cast<double>(*low), right = static_cast<double>(*high), range = right - left;
  constexpr int kGrid = 150;
  double best = HUGE_VAL;
  for (int a = 0; a < kGrid; ++a) {
    for (int b = 0; b < kGrid; ++b) {
      const double from = left + range * 0.45 * a / kGrid, to = right - range * 0.45 * b / kGrid;
      best = std::min(best, least_error(values, weights, bits, (to - from) / ((1 << bits) - 1), from));
    }
  }
  return best;
}

struct Found {
  std::vector<uint8_t> q = std::vector<uint8_t>(kGroup);
  std::vector<float> scale = {0}, bias = {0};

  // What a reader of the stored row decodes, against the values, in float64.
  double error(const std::vector<float>& values, const std::vector<float>& weights) const {
    double total = 0;
    for (size_t i = 0; i < kGroup; ++i) {
      const float decoded =
          to_float(to_bf16(scale[0])) * static_cast<float>(q[i]) + to_float(to_bf16(bias[0]));
      const double off = static_cast<double>(values[i]) - static_cast<double>(decoded);
      total += (weights.empty() ? 1.0 : static_cast<double>(weights[i])) * off * off;
    }
    return total;
  }
};

Found search(const std::vector<float>& values, const std::vector<float>& weights, int bits) {
  Found found;
  search_row(values, weights, bits, kGroup, found.q, found.scale, found.bias);
  return found;
}

Found mlx(const std::vector<float>& values, int bits) {
  Found found;
  quantize_row(values, bits, kGroup, found.q, found.scale, found.bias);
  return found;
}

class ScaleSearch : public ::testing::TestWithParam<int> {};

TEST_P(ScaleSearch, IsNeverWorseThanMlxAndCloseToTheBestOfAnExhaustiveSearch) {
  const int bits = GetParam();
  double ours = 0, theirs = 0, least = 0;
  for (uint32_t which = 0; which < 24; ++which) {
    const auto values = bell(which);
    const double error = search(values, {}, bits).error(values, {}),
                 plain = mlx(values, bits).error(values, {});
    EXPECT_LE(error, plain);
    ours += error;
    theirs += plain;
    least += exhaustive(values, {}, bits);
  }
  EXPECT_LT(ours, theirs * (bits <= 3 ? 0.8 : 0.95));
  EXPECT_LT(ours, least * 1.06);  // which stores its scales in float64
}

INSTANTIATE_TEST_SUITE_P(Bits, ScaleSearch, ::testing::Values(2, 3, 4));

TEST(ScaleSearch, EightBitsGainFromScalesThatAreRoundedTogether) {
  double ours = 0, theirs = 0;
  for (uint32_t which = 0; which < 24; ++which) {
    const auto values = bell(which);
    ours += search(values, {}, 8).error(values, {});
    theirs += mlx(values, 8).error(values, {});
  }
  EXPECT_LT(ours, theirs * 0.8);
}

TEST(ScaleSearch, ErrorsGoWhereTheyMatterLeast) {
  std::vector<float> weights(kGroup, 1.0f);
  for (size_t i = 0; i < 4; ++i) weights[i] = 30;
  for (uint32_t which = 0; which < 24; ++which) {
    const auto values = bell(which);
    EXPECT_LE(search(values, weights, 2).error(values, weights),
              search(values, {}, 2).error(values, weights) * 1.0001);
    EXPECT_LT(search(values, weights, 2).error(values, weights), exhaustive(values, weights, 2) * 1.4);
  }
}

TEST(ScaleSearch, GroupsWithoutASpreadAreExact) {
  for (const float value : {0.0f, 1.0f, -0.375f, 1e-30f, 1e30f}) {
    const std::vector<float> values(kGroup, value);
    const Found found = search(values, {}, 2);
    const float decoded = found.scale[0] * static_cast<float>(found.q[0]) + found.bias[0];
    EXPECT_NEAR(decoded, value, 0.004 * std::fabs(value) + 1e-7) << value;
  }
}

TEST(ScaleSearch, TheLargestNumbersStayFinite) {
  auto values = bell(3);
  for (float& v : values) v *= 1e37f;
  const Found found = search(values, {}, 4);
  EXPECT_TRUE(std::isfinite(found.scale[0]) && std::isfinite(found.bias[0]));
  EXPECT_NE(found.scale[0], 0.0f);
}

TEST(ScaleSearch, ColumnsOfNoImportanceDoNotMatter) {
  std::vector<float> weights(kGroup, 0.0f);
  weights[7] = weights[9] = 1;
  const auto values = bell(5);
  EXPECT_LT(search(values, weights, 4).error(values, weights), 1e-5);
  const std::vector<float> nothing(kGroup, 0.0f);
  const Found found = search(values, nothing, 4);
  EXPECT_TRUE(std::isfinite(found.scale[0]) && found.scale[0] != 0);
}

}  // namespace
}  // namespace weir
