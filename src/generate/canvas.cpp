#include "generate/canvas.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "generate/acceptance.h"

namespace weir {
namespace {

bool is_end(const std::vector<int32_t>& end_tokens, int32_t token) {
  return std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
}

}  // namespace

Canvas::Canvas(const Denoising& denoising, int64_t length, std::vector<int32_t> end_tokens,
               std::unique_ptr<CanvasDraws> draws)
    : denoising_(denoising),
      end_tokens_(std::move(end_tokens)),
      draws_(std::move(draws)),
      limit_(most_passes()) {
  const auto count = static_cast<size_t>(length);
  for (int64_t i = 0; i < length; ++i) tokens_.push_back(draws_->initial(i));
  best_.assign(count, -1);
  confidence_.assign(count, 0);
  gap_.assign(count, 0);
  entropy_.assign(count, 0);
  accepted_.assign(count, 0);
  accepted_in_a_row_.assign(count, 0);
  frozen_.assign(count, 0);
  forwarded_.assign(count, -1);
  plan();
}

float Canvas::temperature() const {
  return denoising_.temperature(std::min(passes_, denoising_.steps - 1));
}

int64_t Canvas::most_passes() const {
  return denoising_.cap ? std::min(denoising_.cap->steps, denoising_.steps) : denoising_.steps;
}

int64_t Canvas::answer_length() const {
  for (size_t i = 0; i < best_.size(); ++i) {
    if (is_end(end_tokens_, best_[i])) return static_cast<int64_t>(i) + 1;
  }
  return length();
}

void Canvas::absorb(std::span<const Belief> beliefs) {
  WEIR_CHECK(beliefs.size() == asked_.size() && !done_);
  if (static_cast<int64_t>(slots_.size()) == length()) changed_since_full_pass_ = 0;
  for (const int32_t slot : slots_) forwarded_[static_cast<size_t>(slot)] = passes_;
  const std::vector<int32_t> before = best_;
  take_beliefs(beliefs);
  const auto count = static_cast<std::ptrdiff_t>(positions_that_count());
  unchanged_ = std::equal(best_.begin(), best_.begin() + count, before.begin()) ? unchanged_ + 1 : 0;
  if (!closing_) {
    choose_tokens(beliefs);
    if (denoising_.tail_drop) drop_tail();
  }
  ++passes_;
  if (closing_) {
    done_ = true;
  } else if (is_finished()) {
    if (denoising_.repair) close();
    done_ = !denoising_.repair;
  } else if (denoising_.cap && denoising_.cap->flush && passes_ + 1 == limit_) {
    close();
  }
  if (!done_) plan();
}

void Canvas::take_beliefs(std::span<const Belief> beliefs) {
  for (size_t i = 0; i < beliefs.size(); ++i) {
    const auto slot = static_cast<size_t>(asked_[i]);
    if (is_frozen(slot) && beliefs[i].best == tokens_[slot]) continue;
    frozen_[slot] = 0;  // thawed, or live already
    take_belief(slot, beliefs[i]);
  }
}

void Canvas::take_belief(size_t slot, const Belief& belief) {
  if (belief.best != best_[slot]) accepted_in_a_row_[slot] = 0;
  best_[slot] = belief.best;
  confidence_[slot] = belief.best_probability;
  gap_[slot] = belief.best_probability - belief.second_probability;
  entropy_[slot] = belief.entropy;
}

// Positions that are live after the pass: accepted ones keep a token, the others become noise.
void Canvas::choose_tokens(std::span<const Belief> beliefs) {
  std::vector<size_t> live;
  std::vector<Belief> theirs;
  for (size_t i = 0; i < beliefs.size(); ++i) {
    const auto slot = static_cast<size_t>(asked_[i]);
    if (is_frozen(slot)) continue;
    live.push_back(slot);
    theirs.push_back(beliefs[i]);
  }
  const std::vector<uint8_t> accept = accepted(denoising_.acceptance, theirs, passes_);
  for (size_t i = 0; i < live.size(); ++i) {
    const size_t slot = live[i];
    const auto position = static_cast<int64_t>(slot);
    const Belief& belief = theirs[i];
    const int32_t kept = denoising_.greedy_accept ? belief.best : belief.sampled;
    accepted_[slot] = accept[i];
    accepted_in_a_row_[slot] = accept[i] != 0 ? accepted_in_a_row_[slot] + 1 : 0;
    tokens_[slot] =
        accept[i] != 0 ? draws_->candidate(passes_, position, kept) : draws_->renoise(passes_, position);
    if (denoising_.freezing && accepted_in_a_row_[slot] >= denoising_.freezing->after) freeze(slot);
  }
}

void Canvas::freeze(size_t slot) {
  frozen_[slot] = 1;
  best_[slot] = tokens_[slot];
  entropy_[slot] = 0;
  forwarded_[slot] = -1;
  ++changed_since_full_pass_;
}

void Canvas::drop_tail() {
  size_t slot = 0;
  while (slot < frozen_.size() && !(is_frozen(slot) && is_end(end_tokens_, tokens_[slot]))) ++slot;
  for (++slot; slot < frozen_.size(); ++slot) {
    if (is_frozen(slot)) continue;
    tokens_[slot] = best_[slot];
    freeze(slot);
  }
}

bool Canvas::is_finished() const {
  if (passes_ >= limit_) return true;
  const int64_t count = positions_that_count();
  const auto end = frozen_.begin() + static_cast<std::ptrdiff_t>(count);
  if (std::find(frozen_.begin(), end, uint8_t{0}) == end) return true;
  return is_certain(count);
}

// By the stop rules, over the first `count` positions.
bool Canvas::is_certain(int64_t count) const {
  const auto n = static_cast<std::ptrdiff_t>(count);
  if (denoising_.gap_stop) {
    const float gap = denoising_.gap_stop->gap;
    bool clear = true;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) clear = clear && (is_frozen(i) || gap_[i] >= gap);
    if (clear) return true;
  }
  if (unchanged_ < denoising_.stability) return false;
  const float sum = std::accumulate(entropy_.begin(), entropy_.begin() + n, 0.0f);
  return sum / static_cast<float>(count) < denoising_.confidence;
}

// The next pass is the last and reads the text as it stands.
void Canvas::close() {
  closing_ = true;
  tokens_ = best_;
  std::fill(frozen_.begin() + static_cast<std::ptrdiff_t>(settled_), frozen_.end(), uint8_t{0});
}

void Canvas::settle(int64_t count, int32_t token) {
  WEIR_CHECK(count >= settled_ && count < length());
  settled_ = count + 1;
  best_[static_cast<size_t>(count)] = token;
  tokens_ = best_;
  for (int64_t slot = 0; slot < length(); ++slot) {
    const auto i = static_cast<size_t>(slot);
    frozen_[i] = 0;
    accepted_in_a_row_[i] = 0;
    if (slot <= count) {
      freeze(i);
    } else {
      tokens_[i] = draws_->renoise(passes_, slot);
    }
  }
  closing_ = false;
  unchanged_ = 0;
  limit_ = passes_ + most_passes();
  changed_since_full_pass_ = length();
  done_ = is_finished();
  if (!done_) plan();
}

bool Canvas::wants_full_pass() const {
  if (!denoising_.compaction || passes_ == 0 || closing_) return true;
  const float share = denoising_.compaction->refresh_share;
  return share > 0 && static_cast<float>(changed_since_full_pass_) >= share * static_cast<float>(length());
}

void Canvas::plan() {
  const bool full = wants_full_pass();
  const bool thaw = full && denoising_.compaction && denoising_.compaction->thaw;
  slots_.clear();
  asked_.clear();
  for (size_t slot = 0; slot < tokens_.size(); ++slot) {
    if (full || !is_frozen(slot) || forwarded_[slot] < 0) slots_.push_back(static_cast<int32_t>(slot));
    const bool may_thaw = thaw && static_cast<int64_t>(slot) >= settled_;
    if (may_thaw || !is_frozen(slot)) asked_.push_back(static_cast<int32_t>(slot));
  }
  if (!full) fill_bucket();
}

// Adds the frozen positions whose keys and values are the oldest.
void Canvas::fill_bucket() {
  const auto bucket = static_cast<size_t>(denoising_.compaction->bucket);
  const size_t wanted = std::min((slots_.size() + bucket - 1) / bucket * bucket, tokens_.size());
  std::vector<int32_t> others;
  for (int32_t slot = 0; slot < static_cast<int32_t>(tokens_.size()); ++slot) {
    if (!std::binary_search(slots_.begin(), slots_.end(), slot)) others.push_back(slot);
  }
  std::stable_sort(others.begin(), others.end(), [&](int32_t a, int32_t b) {
    return forwarded_[static_cast<size_t>(a)] < forwarded_[static_cast<size_t>(b)];
  });
  others.resize(wanted - slots_.size());
  slots_.insert(slots_.end(), others.begin(), others.end());
  std::sort(slots_.begin(), slots_.end());
}

CanvasFrame Canvas::frame() const {
  CanvasFrame frame;
  frame.step = passes_;
  frame.last = done_;
  frame.tokens = tokens_;
  frame.best = best_;
  frame.confidence = confidence_;
  frame.entropy = entropy_;
  frame.accepted = accepted_;
  frame.answer_length = answer_length();
  return frame;
}

}  // namespace weir
