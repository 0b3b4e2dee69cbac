#include "kernels/cpu/top_tokens.h"

#include <algorithm>
#include <cmath>

namespace weir::cpu {

void TopTokens::insert(const RankedToken& token) {
  if (count_ == wanted_) {
    std::pop_heap(tokens_, tokens_ + count_, ranks_before);
    tokens_[count_ - 1] = token;
  } else {
    tokens_[count_++] = token;
  }
  std::push_heap(tokens_, tokens_ + count_, ranks_before);
}

void TopTokens::offer(const float* y, int64_t count, int32_t first_id, float largest) {
  if (wanted_ == 0 || (count_ == wanted_ && largest <= tokens_[0].y)) return;
  for (int64_t v = 0; v < count; ++v) {
    // Ids ascend, so an equal value ranks behind those that are kept.
    const bool kept = count_ < wanted_ ? !std::isnan(y[v]) : y[v] > tokens_[0].y;
    if (kept) insert({y[v], first_id + static_cast<int32_t>(v)});
  }
}

std::span<const RankedToken> TopTokens::finish() {
  std::sort_heap(tokens_, tokens_ + count_, ranks_before);
  return {tokens_, static_cast<size_t>(count_)};
}

}  // namespace weir::cpu
