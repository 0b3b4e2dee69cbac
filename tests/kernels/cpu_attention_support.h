// What the tests of the CPU's two kinds of attention share: pages seen from outside, and float64 with the
// error that float32 may have.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "cpu_step_support.h"

namespace weir::test {

// A position of a page of keys and values: head h, dimension d (attention_kernels.h).
struct CachedPosition {
  const Buffer* page = nullptr;
  int64_t slot = 0;
  int64_t dim = 0;

  uint16_t* head(int64_t h) const { return static_cast<uint16_t*>(page->data()) + h * 2 * kKvPage * dim; }
  uint16_t& key_bits(int64_t h, int64_t d) const { return head(h)[(slot / 16 * dim + d) * 16 + slot % 16]; }
  uint16_t& value_bits(int64_t h, int64_t d) const {
    return head(h)[kKvPage * dim + (d / 16 * kKvPage + slot) * 16 + d % 16];
  }
  double key(int64_t h, int64_t d) const { return to_float(Bf16{key_bits(h, d)}); }
  double value(int64_t h, int64_t d) const { return to_float(Bf16{value_bits(h, d)}); }
  void poison(int64_t heads) const {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < dim; ++d) key_bits(h, d) = value_bits(h, d) = 0x7fc0;  // NaN
    }
  }
};

inline CachedPosition cached(const KvCache& cache, int64_t position, int64_t dim) {
  return {&cache.pages[static_cast<size_t>(position / kKvPage)], position % kKvPage, dim};
}

// Pages for `positions` positions, full of random numbers: a few thousand of them over and over.
inline KvCache random_pages(int64_t positions, size_t page_bytes, uint64_t seed) {
  constexpr size_t kNumbers = 4099;
  const auto numbers = Random(seed).floats(kNumbers, -1, 1);
  KvCache cache;
  size_t filled = 0;
  for (int64_t p = 0; p < positions; p += kKvPage) {
    cache.pages.push_back(zeroed(page_bytes));
    auto* page = static_cast<uint16_t*>(cache.pages.back().data());
    for (size_t i = 0; i < page_bytes / sizeof(uint16_t); ++i) {
      page[i] = to_bf16(numbers[filled++ % kNumbers]).bits;
    }
  }
  return cache;
}

// Elements (i, i + distance) with i < pairs turn by position * theta^(-2 i / span).
struct Turning {
  double theta = 0;
  int64_t span = 0, pairs = 0, distance = 0;
};

struct Head {
  std::vector<double> x;
  std::vector<double> error;  // of a float32 evaluation, absolute
};

// Norm (with `gain`, unless null) and rotation. Error: the mean's sum has dim / 16 + 4 roundings on each of
// its terms and half of it reaches the root; 8 more for the other operations, of which a rotated element
// takes its share of both members of its pair.
inline Head norm_rotate(const float* x, const Vector* gain, int64_t dim, float epsilon,
                        const Turning& turning, int64_t position) {
  double squares = 0;
  for (int64_t d = 0; d < dim; ++d) squares += static_cast<double>(x[d]) * x[d];
  const double root = std::sqrt(squares / static_cast<double>(dim) + epsilon);
  const double c = (static_cast<double>(dim) / 16 + 4) / 2 + 8;
  Head head;
  for (int64_t d = 0; d < dim; ++d) head.x.push_back(x[d] / root * (gain ? gain->floats()[d] : 1.0f));
  for (const double value : head.x) head.error.push_back(c * kU * std::abs(value));
  for (int64_t i = 0; i < turning.pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(turning.span);
    const double angle = static_cast<float>(position) * static_cast<float>(std::pow(turning.theta, exponent));
    const auto first = static_cast<size_t>(i), second = static_cast<size_t>(i + turning.distance);
    const double u = head.x[first], v = head.x[second];
    head.x[first] = u * std::cos(angle) - v * std::sin(angle);
    head.x[second] = v * std::cos(angle) + u * std::sin(angle);
    head.error[first] = head.error[second] = c * kU * (std::abs(u) + std::abs(v));
  }
  return head;
}

// A cached key or value is the float64 one rounded to bfloat16, whose half step is at most 2^-8 of it.
inline void expect_rounded(const Head& exact, const std::function<double(int64_t)>& stored) {
  for (size_t d = 0; d < exact.x.size(); ++d) {
    ASSERT_NEAR(stored(static_cast<int64_t>(d)), exact.x[d], 0x1p-8 * std::abs(exact.x[d]) + exact.error[d])
        << "dim " << d;
  }
}

// out[dim] = softmax(scale * q k) v over `seen`, times gate[dim] unless it is null. Errors of a sum of n
// terms add up like a random walk, to 4 sqrt(n) roundings of its magnitude at the very most. Let E bound the
// error of a score: the query's error and that of a sum of `dim` products. A weight e^(s - max) is then off
// by 2 E, the rounding of s - max and 4 roundings of e^x, relatively; numerator and denominator both are, and
// each is a sum of up to 256 terms in a page, merged with 8 roundings a page. 10 roundings for the division
// and the gate.
inline void expect_attended(const float* out, const Head& q, double scale, const double* gate,
                            const std::vector<CachedPosition>& seen, int64_t kv_head) {
  const auto dim = static_cast<int64_t>(q.x.size());
  std::vector<double> scores;
  const double dot_roundings = 4 * std::sqrt(static_cast<double>(dim)), page_roundings = 4 * 16;
  double score_error = 0, top = -1e300, bottom = 1e300;
  for (const CachedPosition& p : seen) {
    double score = 0, error = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const auto i = static_cast<size_t>(d);
      const double k = p.key(kv_head, d);
      score += q.x[i] * k * scale;
      error += (q.error[i] + dot_roundings * kU * std::abs(q.x[i])) * std::abs(k) * scale;
    }
    scores.push_back(score);
    score_error = std::max(score_error, error);
    top = std::max(top, score);
    bottom = std::min(bottom, score);
  }
  const auto pages = static_cast<double>(seen.size() / kKvPage + 2);
  const double relative =
      2 * (2 * score_error + (top - bottom + 4) * kU + (page_roundings + 8 * pages) * kU) + 10 * kU;
  for (int64_t d = 0; d < dim; ++d) {
    double sum = 0, weighted = 0, magnitude = 0;
    for (size_t p = 0; p < seen.size(); ++p) {
      const double e = std::exp(scores[p] - top), v = seen[p].value(kv_head, d);
      sum += e;
      weighted += e * v;
      magnitude += e * std::abs(v);
    }
    const double g = gate ? gate[d] : 1.0;
    ASSERT_NEAR(out[d], weighted / sum * g, relative * magnitude / sum * g) << "dim " << d;
  }
}

}  // namespace weir::test
