// The elementary functions of the vector layer against float64. Compiled for the portable layer, which
// defines what the others do.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#define WEIR_ISA math_test
#include "kernels/cpu/simd_math.h"

namespace weir::cpu::math_test {
namespace {

using Function = F32x16 (*)(F32x16);

float lane0(Function f, float x) {
  float y[kLanes];
  store(y, f(set1(x)));
  return y[0];
}

// Largest relative error of `f` on a grid of floats in [low, high].
double worst_error(Function f, double (*truth)(double), double low, double high) {
  constexpr int kPoints = 200000;
  double worst = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / kPoints);
    const double expected = truth(x);
    if (expected != 0) worst = std::max(worst, std::abs(lane0(f, x) / expected - 1));
  }
  return worst;
}

double sigmoid64(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu64(double x) {
  return x / (1 + std::exp(-x));
}
double softplus64(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

TEST(SimdMath, ExponentialIsExactTo1e7) {
  EXPECT_LT(worst_error([](F32x16 x) { return exp(x); }, std::exp, -87.3, 88.3), 1.5e-7);
  EXPECT_LT(worst_error([](F32x16 x) { return exp(x); }, std::exp, -1, 1), 1.5e-7);
}

TEST(SimdMath, ExponentialOfTheExtremes) {
  const auto f = [](float x) { return lane0([](F32x16 v) { return exp(v); }, x); };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f(0), 1);
  EXPECT_EQ(f(-87.4f), 0);
  EXPECT_EQ(f(-1e30f), 0);
  EXPECT_EQ(f(-infinity), 0);
  EXPECT_EQ(f(88.5f), infinity);
  EXPECT_EQ(f(infinity), infinity);
  EXPECT_TRUE(std::isnan(f(std::numeric_limits<float>::quiet_NaN())));
}

TEST(SimdMath, SigmoidAndSiluAreExactTo3e7) {
  EXPECT_LT(worst_error([](F32x16 x) { return sigmoid(x); }, sigmoid64, -87, 100), 3e-7);
  EXPECT_LT(worst_error([](F32x16 x) { return silu(x); }, silu64, -87, 100), 3e-7);
  EXPECT_EQ(lane0([](F32x16 x) { return sigmoid(x); }, -200), 0);
  EXPECT_EQ(lane0([](F32x16 x) { return silu(x); }, -200), 0);
}

double gelu64(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

TEST(SimdMath, GeluIsExactTo3e7OfTheLargerOfItsArgumentAndOne) {
  const auto f = [](float x) { return lane0([](F32x16 v) { return gelu(v); }, x); };
  for (const double width : {0.01, 1.0, 6.0, 100.0}) {
    constexpr int kPoints = 100000;
    for (int i = -kPoints; i <= kPoints; ++i) {
      const auto x = static_cast<float>(width * i / kPoints);
      ASSERT_NEAR(f(x), gelu64(x), 3e-7 * std::max(1.0f, std::abs(x))) << x;
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f(0), 0);
  EXPECT_EQ(f(1e30f), 1e30f);
  EXPECT_EQ(f(infinity), infinity);
  EXPECT_EQ(f(-20), 0);
  EXPECT_EQ(f(-1e30f), 0);
  EXPECT_TRUE(std::isnan(f(std::numeric_limits<float>::quiet_NaN())));
}

TEST(SimdMath, SoftplusIsExactTo4e7) {
  EXPECT_LT(worst_error([](F32x16 x) { return softplus(x); }, softplus64, -87, 100), 4e-7);
  EXPECT_LT(worst_error([](F32x16 x) { return softplus(x); }, softplus64, -2, 2), 4e-7);
  EXPECT_EQ(lane0([](F32x16 x) { return softplus(x); }, 1000), 1000);
}

TEST(SimdMath, HyperbolicTangentIsExactTo3e7) {
  for (const auto& [low, high] : {std::pair{-0.7, 0.7}, {-12.0, 12.0}, {-1e-3, 1e-3}, {-100.0, 100.0}}) {
    EXPECT_LT(worst_error([](F32x16 x) { return tanh(x); }, std::tanh, low, high), 3e-7);
  }
  EXPECT_EQ(lane0([](F32x16 x) { return tanh(x); }, -std::numeric_limits<float>::infinity()), -1);
  EXPECT_EQ(lane0([](F32x16 x) { return tanh(x); }, 1e30f), 1);
  EXPECT_EQ(lane0([](F32x16 x) { return tanh(x); }, 1e-30f), 1e-30f);
  EXPECT_TRUE(std::isnan(lane0([](F32x16 x) { return tanh(x); }, std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace weir::cpu::math_test
