#include "generate/reference_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::test {
namespace {

long double penalised(float logit, int32_t token, const Sampling& sampling, const History& history) {
  float value = logit;
  for (const auto& [biased, bias] : sampling.logit_bias) {
    if (biased == token) value += bias;
  }
  const auto times = std::count(history.generated.begin(), history.generated.end(), token);
  const bool seen = times > 0 || std::count(history.prompt.begin(), history.prompt.end(), token) > 0;
  if (seen && value > 0)
    value /= sampling.repetition_penalty;
  else if (seen)
    value *= sampling.repetition_penalty;
  value -= sampling.frequency_penalty * static_cast<float>(times);
  if (times > 0) value -= sampling.presence_penalty;
  return value;
}

void normalise(std::vector<Kept>& kept) {
  long double sum = 0;
  for (const Kept& k : kept) sum += k.probability;
  for (Kept& k : kept) k.probability /= sum;
}

void keep_top_p(std::vector<Kept>& kept, long double top_p) {
  long double before = 0;
  size_t count = 0;
  while (count < kept.size() && (count == 0 || before < top_p)) before += kept[count++].probability;
  kept.resize(count);
}

}  // namespace

std::vector<Kept> reference_distribution(std::span<const float> logits, const Sampling& sampling,
                                         const History& history, const std::vector<bool>& allowed) {
  std::vector<long double> scaled(logits.size(), -std::numeric_limits<long double>::infinity());
  for (size_t t = 0; t < logits.size(); ++t) {
    if (!allowed.empty() && !allowed[t]) continue;
    scaled[t] = penalised(logits[t], static_cast<int32_t>(t), sampling, history) /
                static_cast<long double>(sampling.temperature);
  }
  const long double largest = *std::max_element(scaled.begin(), scaled.end());
  std::vector<Kept> kept;
  for (size_t t = 0; t < scaled.size(); ++t) {
    kept.push_back({static_cast<int32_t>(t), std::exp(scaled[t] - largest)});
  }
  const bool cut = sampling.top_k > 0 || sampling.top_p < 1 || sampling.min_p > 0;
  if (cut) {
    std::stable_sort(kept.begin(), kept.end(),
                     [&](const Kept& a, const Kept& b) { return scaled[a.token] > scaled[b.token]; });
  }
  if (sampling.top_k > 0) kept.resize(std::min(kept.size(), static_cast<size_t>(sampling.top_k)));
  normalise(kept);
  if (sampling.top_p < 1) keep_top_p(kept, sampling.top_p);
  const long double best = cut ? kept.front().probability : 0;
  std::erase_if(kept, [&](const Kept& k) {
    return k.probability == 0 || k.probability < best * static_cast<long double>(sampling.min_p);
  });
  normalise(kept);
  return kept;
}

}  // namespace weir::test
