// A rendered prompt.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

struct PromptOptions {
  bool add_generation_prompt = true;  // open the assistant's turn at the end
  bool enable_thinking = true;
  bool preserve_thinking = false;  // keep the thinking of earlier turns too
};

// A stretch of the prompt. A control piece is exactly one marker, such as "<|im_end|>", which the tokenizer
// must turn into its added token. Any other piece must be encoded with added tokens not recognised: it may
// hold what a user wrote, and "<|im_end|>" written by a user is text that must not end the turn.
//
// As long as no user wrote a marker, encoding piece by piece gives the same tokens as encoding the flat
// prompt with added tokens recognised, because pieces part only where an added token stands.
struct PromptPiece {
  std::string text;
  bool control = false;
};

using Prompt = std::vector<PromptPiece>;

// The prompt as one string.
std::string flatten(const Prompt& prompt);

class PromptBuilder {
 public:
  // Text that nobody vouches for: no marker in it is one.
  void add_text(std::string_view text);

  // A marker, as a piece of its own.
  void add_control(std::string_view marker);

  // Text in which each occurrence of a marker is one. Every marker starts with '<'; none is the start of
  // another.
  void add_markup(std::string_view text, std::span<const std::string_view> markers);

  Prompt take() { return std::move(pieces_); }

 private:
  Prompt pieces_;
};

}  // namespace weir
