// What the tests of the CPU's output head share: distributions in float64, and the stated rule of the draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_step_support.h"
#include "kernels/diffusion_steps.h"

namespace weir::test {

// p = softmax(y) with y = softcap tanh(z / softcap) / temperature.
struct Distribution {
  std::vector<double> y;
  std::vector<double> p;
  double entropy = 0;

  double log_sum(size_t begin, size_t end) const {
    const double top = *std::max_element(y.begin(), y.end());
    double sum = 0;
    for (size_t v = begin; v < end; ++v) sum += std::exp(y[v] - top);
    return top + std::log(sum);
  }
};

template <class Logits>
Distribution distribution(const Logits& z, double softcap, double temperature) {
  Distribution d;
  for (const double logit : z) d.y.push_back(softcap * std::tanh(logit / softcap) / temperature);
  const double total = d.log_sum(0, d.y.size());
  for (const double y : d.y) {
    d.p.push_back(std::exp(y - total));
    d.entropy += d.p.back() * (total - y);
  }
  return d;
}

// Ids by falling value, ties to the lower id.
template <class Values>
std::vector<int32_t> ranked(const Values& values) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return ids;
}

inline double unit(uint32_t word) {
  return (word + 0.5) / 4294967296.0;
}

// The token that the rule beside kVocabularyPanel draws.
inline int32_t drawn_token(const Distribution& d, const DrawKey& key) {
  double best = -std::numeric_limits<double>::infinity();
  size_t token = 0;
  for (size_t begin = 0; begin < d.y.size(); begin += kVocabularyPanel) {
    const size_t end = std::min<size_t>(begin + kVocabularyPanel, d.y.size());
    const auto words = random_words(panel_draw(key, static_cast<int64_t>(begin / kVocabularyPanel)));
    const double weight = d.log_sum(begin, end);
    const double lead = weight - std::log(-std::log(unit(words[0])));
    if (lead <= best) continue;
    best = lead;
    double below = 0;
    for (token = begin; token + 1 < end; ++token) {
      below += std::exp(d.y[token] - weight);
      if (unit(words[1]) < below) break;
    }
  }
  return static_cast<int32_t>(token);
}

}  // namespace weir::test
