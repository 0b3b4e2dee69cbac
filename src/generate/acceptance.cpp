#include "generate/acceptance.h"

#include <algorithm>
#include <numeric>

namespace weir {
namespace {

// The sum is float32 and inclusive, less the position's own entropy, as in the reference.
std::vector<uint8_t> within_bound(float bound, std::span<const Belief> beliefs) {
  std::vector<size_t> order(beliefs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return beliefs[a].entropy < beliefs[b].entropy; });
  std::vector<uint8_t> accept(beliefs.size());
  float sum = 0;
  for (const size_t i : order) {
    sum += beliefs[i].entropy;
    accept[i] = sum - beliefs[i].entropy <= bound ? 1 : 0;
  }
  return accept;
}

std::vector<uint8_t> above_threshold(float threshold, std::span<const Belief> beliefs) {
  std::vector<uint8_t> accept(beliefs.size());
  for (size_t i = 0; i < beliefs.size(); ++i) accept[i] = beliefs[i].best_probability >= threshold ? 1 : 0;
  const auto surest = std::max_element(beliefs.begin(), beliefs.end(), [](const Belief& a, const Belief& b) {
    return a.best_probability < b.best_probability;
  });
  if (surest != beliefs.end()) accept[static_cast<size_t>(surest - beliefs.begin())] = 1;
  return accept;
}

}  // namespace

std::vector<uint8_t> accepted(const Acceptance& rule, std::span<const Belief> beliefs, int64_t step) {
  if (const auto* bound = std::get_if<EntropyBound>(&rule)) return within_bound(bound->bound, beliefs);
  const auto& threshold = std::get<ConfidenceThreshold>(rule);
  return above_threshold(step < threshold.high_steps ? threshold.high : threshold.low, beliefs);
}

}  // namespace weir
