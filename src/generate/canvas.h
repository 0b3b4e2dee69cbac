// One canvas on its way from noise to text: what each pass forwards, and what its beliefs change. It knows
// neither model nor memory.
//
// The reference's step: every position is sampled; positions of low entropy keep their sample, the others
// become noise again (nothing is kept for good); the canvas is done when the best tokens stay the same and
// their mean entropy is low, or after the last step; the best tokens of the last pass are its text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generate/canvas_draws.h"
#include "generate/canvas_frame.h"
#include "generate/denoising.h"

namespace weir {

class Canvas {
 public:
  // `denoising` has passed validate().
  Canvas(const Denoising& denoising, int64_t length, std::vector<int32_t> end_tokens,
         std::unique_ptr<CanvasDraws> draws);

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t passes() const { return passes_; }

  // The next pass: the slots that it forwards, ascending; their tokens; and those of them, ascending, whose
  // beliefs it is to find out.
  std::span<const int32_t> slots() const { return slots_; }
  std::span<const int32_t> asked() const { return asked_; }
  int32_t token(int32_t slot) const { return tokens_[static_cast<size_t>(slot)]; }
  float temperature() const;
  DrawKey draw(int32_t slot) const { return draws_->key(passes_, slot); }
  // How many tokens the next pass's expected embeddings are made of; 0 where no pass follows to read them.
  int32_t soft_tokens() const { return closing_ || passes_ + 1 >= limit_ ? 0 : denoising_.soft_tokens; }

  // Takes the pass's beliefs, one for each asked slot.
  void absorb(std::span<const Belief> beliefs);

  bool done() const { return done_; }

  // The first `count` positions are right, and the next one is to hold `token`: all of them are frozen. The
  // others become noise, as what follows another token may stand elsewhere; their expected embeddings must be
  // forgotten too.
  void settle(int64_t count, int32_t token);

  // The text as of the last pass: the best token of each position, or the one that it is frozen with.
  std::span<const int32_t> best() const { return best_; }
  // Its length with the first end token; the whole length without one.
  int64_t answer_length() const;

  // The canvas after the last pass; canvas number, seconds and `last` are the caller's.
  CanvasFrame frame() const;

 private:
  bool is_frozen(size_t slot) const { return frozen_[slot] != 0; }
  int64_t positions_that_count() const { return denoising_.answer_stop ? answer_length() : length(); }
  int64_t most_passes() const;

  void take_beliefs(std::span<const Belief> beliefs);
  void take_belief(size_t slot, const Belief& belief);
  void choose_tokens(std::span<const Belief> beliefs);
  void freeze(size_t slot);
  void drop_tail();
  bool is_finished() const;
  bool is_certain(int64_t count) const;
  void close();
  bool wants_full_pass() const;
  void plan();
  void fill_bucket();

  Denoising denoising_;
  std::vector<int32_t> end_tokens_;
  std::unique_ptr<CanvasDraws> draws_;

  int64_t passes_ = 0;
  bool done_ = false;
  int64_t limit_;          // passes after which the canvas is done at the latest
  bool closing_ = false;   // one pass is left, over the finished text
  int64_t settled_ = 0;    // so many first positions are frozen for good
  int64_t unchanged_ = 0;  // passes in a row that left the best tokens, where they count, as they were
  int64_t changed_since_full_pass_ = 0;

  std::vector<int32_t> slots_, asked_;
  std::vector<int32_t> tokens_;  // input of the next pass
  std::vector<int32_t> best_;
  std::vector<float> confidence_, gap_, entropy_;
  std::vector<uint8_t> accepted_;
  std::vector<int64_t> accepted_in_a_row_;
  std::vector<uint8_t> frozen_;
  std::vector<int64_t>
      forwarded_;  // number of the last pass that forwarded the slot's present token; -1: none
};

}  // namespace weir
