#include "generate/draft.h"

#include <algorithm>

namespace weir {

std::vector<int32_t> lookup_draft(std::span<const int32_t> tokens, int64_t most) {
  for (const size_t length : {size_t{3}, size_t{2}}) {
    if (most <= 0 || tokens.size() <= length) continue;
    const auto key = tokens.last(length);
    for (size_t begin = tokens.size() - length; begin-- > 0;) {
      if (!std::equal(key.begin(), key.end(), tokens.begin() + static_cast<int64_t>(begin))) continue;
      const auto follows = tokens.subspan(begin + length);
      const auto drafts = follows.first(std::min(follows.size(), static_cast<size_t>(most)));
      return {drafts.begin(), drafts.end()};
    }
  }
  return {};
}

void DraftGauge::Cost::add(double more_seconds, double more_tokens) {
  constexpr double kKept = 0.97;
  seconds = kKept * seconds + more_seconds;
  tokens = kKept * tokens + more_tokens;
}

void DraftGauge::add(bool drafted, double seconds, int64_t tokens) {
  (drafted ? drafted_ : plain_).add(seconds, static_cast<double>(tokens));
  if (!drafted) {
    pause_ = std::max<int64_t>(pause_ - 1, 0);
    return;
  }
  ++trial_;
  if (trial_ < kTrial || plain_.tokens == 0 || drafted_.tokens == 0) return;
  if (drafted_.per_token() <= plain_.per_token()) {
    next_pause_ = kFirstPause;
    return;
  }
  trial_ = 0;
  drafted_ = {};
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
}

}  // namespace weir
