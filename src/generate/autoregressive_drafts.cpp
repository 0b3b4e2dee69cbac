// Where the guesses of a generation come from.
#include <algorithm>
#include <utility>

#include "generate/autoregressive.h"

namespace weir {

// Guesses what follows the token that the next pass leads to, where that is allowed and pays.
void AutoregressiveGeneration::make_draft() {
  draft_.clear();
  if (in_prompt() || !is_last(next_chunk())) return;
  const auto size = static_cast<int64_t>(tokens_.size());
  const int64_t context_left = request_.context - size - 1;
  int64_t most = std::min({kMostDrafts, model_.max_wanted() - 1, context_left,
                           model_.max_rows() - static_cast<int64_t>(next_chunk().size())});
  if (request_.max_tokens > 0) {
    most = std::min(most, request_.max_tokens - (size - static_cast<int64_t>(prompt_tokens_)) - 1);
  }
  draft_ = guesses(most);
  const auto& ends = request_.end_tokens;
  draft_.erase(std::find_first_of(draft_.begin(), draft_.end(), ends.begin(), ends.end()), draft_.end());
  if (!draft_.empty() && !model_.mark(state_, bookmark_).ok()) draft_.clear();  // no memory for it
}

std::vector<int32_t> AutoregressiveGeneration::guesses(int64_t most) const {
  if (guess_) return guess_(tokens_, most);
  if (!may_draft()) return {};
  if (request_.draft == Draft::kLookup) return lookup_draft(tokens_, most);
  const auto count = std::min(static_cast<int64_t>(guessed_.size()), std::max<int64_t>(most, 0));
  return {guessed_.begin(), guessed_.begin() + count};
}

// Shows the draft head the rows of the last pass, from position `first` on, whose next token is known, and
// lets it guess what follows. While guessing pauses, it misses what the answer gains.
void AutoregressiveGeneration::ask_draft_head(int64_t first, int64_t rows) {
  guessed_.clear();
  const bool prefill = first < static_cast<int64_t>(prompt_tokens_);
  if (!pairs_ || finished() || !(prefill || may_draft())) return;
  const auto known = static_cast<int64_t>(tokens_.size()) - 1;
  const int64_t begin = std::max(first, next_pair_), end = std::min(first + rows, known);
  if (begin >= end) return;
  const auto started = Clock::now();
  const auto next = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(begin + 1),
                                                              static_cast<size_t>(end - begin));
  auto guessed = model_.draft(*pairs_, begin - first, next, may_draft() && end == known ? kHeadDrafts : 0);
  next_pair_ = end;
  if (guessed.ok()) {
    guessed_ = std::move(*guessed);
  } else {
    pairs_.reset();  // no memory for it; the answer goes on without
  }
  const double seconds = Seconds(Clock::now() - started).count();
  (prefill ? statistics_.prefill_seconds : statistics_.decode_seconds) += seconds;
  if (!prefill) head_seconds_ += seconds;
}

}  // namespace weir
