// What the tests of the CPU's products share: random matrices of every encoding, their exact values, and the
// bound on a product's error.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/affine.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/cpu_step_support.h"

namespace weir::test {

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : all_isas()) {
    if (cpu_features().supports(isa)) isas.push_back(isa);
  }
  return isas;
}

// Steps with their own pool, ready for `limits`.
struct CpuBackend {
  CpuBackend(Isa isa, int threads, const Limits& limits) : pool(threads) {
    auto made = make_cpu_steps(pool, isa);
    EXPECT_TRUE(made.ok()) << made.error().message;
    steps = std::move(*made);
    EXPECT_TRUE(steps->reserve(limits).ok());
  }
  Steps* operator->() const { return steps.get(); }

  ThreadPool pool;
  std::unique_ptr<Steps> steps;
};

inline OwnedMatrix random_matrix(Random& random, int64_t rows, int64_t cols, const Encoding& encoding) {
  return encode_matrix(random.floats(rows * cols, -1, 1), rows, cols, encoding);
}

// Row `row` in float64: scale * q + bias, unrounded.
inline std::vector<double> exact_row(const Matrix& m, int64_t row) {
  const auto cols = static_cast<size_t>(m.cols);
  std::vector<double> w(cols);
  if (!m.encoding.affine()) {
    std::vector<float> values(cols);
    decode_row(m, row, values.data());
    return {values.begin(), values.end()};
  }
  std::vector<uint8_t> q(cols);
  unpack_row(m, row, q.data());
  for (size_t c = 0; c < cols; ++c) {
    const auto g = static_cast<int64_t>(c) / m.encoding.group;
    w[c] = static_cast<double>(matrix_scale(m, row, g)) * q[c] + matrix_bias(m, row, g);
  }
  return w;
}

struct Bounded {
  double value = 0;
  double error = 0;  // how far from `value` a product may be
};

// The product of one row with activations x, which may be off by dx already.
//
// int8: activation c is off by at most d = max|x of its group| / 254 (1 + 2^-20), which costs |w| d. The
// float sums cost at most (2 groups + 3) roundings of their absolute terms, |s| q |x'| + |b| |x'| with |x'|
// <= |x| + d. Float activations: d = 0, and every column is one more rounding.
inline Bounded exact_product(const Matrix& m, int64_t row, std::span<const float> x, double dx, Use use) {
  const std::vector<double> w = exact_row(m, row);
  const bool affine = m.encoding.affine();
  const bool int8 = affine && use == Use::kProjection;
  const auto cols = static_cast<size_t>(m.cols);
  const size_t group = affine ? static_cast<size_t>(m.encoding.group) : cols;
  std::vector<uint8_t> q(cols);
  if (affine) unpack_row(m, row, q.data());
  Bounded y;
  double terms = 0;
  for (size_t c = 0; c < cols; ++c) {
    const size_t g = c / group;
    double largest = 0;
    for (size_t i = g * group; int8 && i < (g + 1) * group; ++i)
      largest = std::max(largest, std::fabs(x[i] * 1.0));
    const double d = int8 ? (largest + dx) / 254 * (1 + 0x1p-20) + dx : dx;
    const double bias = affine ? std::fabs(matrix_bias(m, row, static_cast<int64_t>(g))) : 0;
    const double scale =
        affine ? std::fabs(matrix_scale(m, row, static_cast<int64_t>(g))) * q[c] : std::fabs(w[c]);
    y.value += w[c] * x[c];
    y.error += std::fabs(w[c]) * d;
    terms += (scale + bias) * (std::fabs(x[c]) + d);
  }
  const double roundings =
      (int8 ? 0 : static_cast<double>(cols)) + 2.0 * static_cast<double>(cols / group) + 3;
  y.error += roundings * kU * terms;
  return y;
}

}  // namespace weir::test
