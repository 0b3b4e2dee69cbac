#include "kernels/reference/head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace weir::reference {
namespace {

double point_of(uint32_t word) {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

double log_sum_exp(const double* y, size_t count) {
  const double top = *std::max_element(y, y + count);
  double sum = 0;
  for (size_t v = 0; v < count; ++v) sum += std::exp(y[v] - top);
  return top + std::log(sum);
}

// The token of y[0, count) at `point` of the distribution function.
size_t token_at(const double* y, size_t count, double point) {
  const double total = log_sum_exp(y, count);
  double below = 0;
  for (size_t v = 0; v + 1 < count; ++v) {
    below += std::exp(y[v] - total);
    if (point < below) return v;
  }
  return count - 1;
}

int32_t sample(const std::vector<double>& y, const DrawKey& draw) {
  double best = -std::numeric_limits<double>::infinity();
  size_t token = 0;
  for (size_t first = 0; first < y.size(); first += kVocabularyPanel) {
    const size_t count = std::min<size_t>(kVocabularyPanel, y.size() - first);
    const auto words = random_words(panel_draw(draw, static_cast<int64_t>(first / kVocabularyPanel)));
    const double key = log_sum_exp(y.data() + first, count) - std::log(-std::log(point_of(words[0])));
    if (key <= best) continue;
    best = key;
    token = first + token_at(y.data() + first, count, point_of(words[1]));
  }
  return static_cast<int32_t>(token);
}

// Token ids, most probable first, ties to the lower id.
std::vector<int32_t> ranked(const std::vector<double>& y) {
  std::vector<int32_t> order(y.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return y[static_cast<size_t>(a)] > y[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

Belief belief_of(const std::vector<double>& y, const DrawKey& draw) {
  const std::vector<int32_t> order = ranked(y);
  const double total = log_sum_exp(y.data(), y.size());
  const auto probability = [&](int32_t token) { return std::exp(y[static_cast<size_t>(token)] - total); };
  Belief belief;
  belief.best = order[0];
  belief.second = order[1];
  belief.best_probability = static_cast<float>(probability(order[0]));
  belief.second_probability = static_cast<float>(probability(order[1]));
  double entropy = 0;
  for (const double value : y) entropy += std::exp(value - total) * (total - value);
  belief.entropy = static_cast<float>(entropy);
  belief.sampled = sample(y, draw);
  return belief;
}

std::vector<double> kept_probabilities(const std::vector<double>& y, int32_t kept) {
  const double total = log_sum_exp(y.data(), y.size());
  const std::vector<int32_t> order = ranked(y);
  const size_t count = kept == kAllTokens ? y.size() : std::min<size_t>(static_cast<size_t>(kept), y.size());
  std::vector<double> p(y.size());
  for (size_t i = 0; i < count; ++i) {
    const auto v = static_cast<size_t>(order[i]);
    p[v] = std::exp(y[v] - total);
  }
  return p;
}

}  // namespace weir::reference
