#include "generate/top_k.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/check.h"

namespace weir {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr int kLanes = 16;  // independent maxima, so that the loop over a block becomes vector code

float block_maximum(const float* block) {
  std::array<float, kLanes> lanes;
  std::copy_n(block, kLanes, lanes.begin());
  for (int64_t i = kLanes; i < TopK::kBlock; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      const float x = block[i + j];
      lanes[j] = x > lanes[j] ? x : lanes[j];
    }
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

void TopK::scan(std::span<const float> logits) {
  WEIR_CHECK(!logits.empty());
  logits_ = logits;
  const size_t full = logits.size() / kBlock;
  maxima_.clear();
  for (size_t b = 0; b < full; ++b) maxima_.push_back(block_maximum(logits.data() + b * kBlock));
  const auto rest = logits.subspan(full * kBlock);
  if (!rest.empty()) maxima_.push_back(*std::max_element(rest.begin(), rest.end()));
  largest_ = *std::max_element(maxima_.begin(), maxima_.end());
}

std::span<const Candidate> TopK::select(int64_t k) {
  const size_t count = std::min(static_cast<size_t>(k), logits_.size());
  if (count == 0) return {};
  float threshold = kNothing;
  if (count <= maxima_.size()) {
    ordered_ = maxima_;
    const auto kth = ordered_.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::nth_element(ordered_.begin(), kth, ordered_.end(), std::greater<>());
    threshold = *kth;
  }
  gather(threshold);
  if (candidates_.size() > count) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count) - 1,
                     candidates_.end(), comes_before);
    candidates_.resize(count);
  }
  std::sort(candidates_.begin(), candidates_.end(), comes_before);
  return candidates_;
}

std::span<const Candidate> TopK::at_least(float threshold) {
  gather(threshold);
  std::sort(candidates_.begin(), candidates_.end(), comes_before);
  return candidates_;
}

void TopK::gather(float threshold) {
  candidates_.clear();
  for (size_t b = 0; b < maxima_.size(); ++b) {
    if (maxima_[b] < threshold) continue;
    const size_t begin = b * kBlock;
    const size_t end = std::min(begin + kBlock, logits_.size());
    for (size_t i = begin; i < end; ++i) {
      if (logits_[i] >= threshold) candidates_.push_back({logits_[i], static_cast<int32_t>(i)});
    }
  }
}

}  // namespace weir
