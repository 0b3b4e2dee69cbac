// Where the reading of a prompt stops to keep the sequence as it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace weir {

class Checkpoints {
 public:
  Checkpoints(const Tokenizer& tokenizer, bool is_diffusion);

  // Ascending positions in the prompt, behind the `reused` tokens that are not read again. `common` tokens
  // are those that the prompt shares with any earlier one.
  //
  // - Every kStride tokens, so that a changed later message costs at most that many.
  // - Where the prompt parts from earlier ones: what they have in common, such as a system message, is likely
  // to
  //   begin others.
  // - Before the generation prompt, that is at the last token that opens a turn: the next prompt may render
  // the
  //   answer differently, as without its thinking. In a prompt without turns, before its last token, so that
  //   it can be asked again.
  //
  // Keys and values can be cut back, so a diffusion model needs no more than the strides and the whole
  // prompt, where it stops anyway; both are there for its sliding layers, which forget.
  std::vector<int64_t> positions(std::span<const int32_t> prompt, int64_t reused, int64_t common) const;

  static constexpr int64_t kStride = 1024;
  static constexpr int64_t kLeastShared = 32;  // fewer tokens in common are not worth a state

 private:
  int64_t before_generation(std::span<const int32_t> prompt) const;

  bool is_diffusion_ = false;
  int32_t opens_turn_ = -1;  // -1: the tokenizer has no such token
};

}  // namespace weir
