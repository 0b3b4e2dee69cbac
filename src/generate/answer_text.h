// The text of an answer in the making: decoded, held back where it may be part of a stop string, and passed
// on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "generate/generation.h"
#include "generate/stop.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace weir {

class AnswerText {
 public:
  // `tokenizer` must outlive it. `piece` may be empty.
  AnswerText(const Tokenizer& tokenizer, SpecialTokens special, std::vector<std::string> stop_strings,
             std::function<void(const Piece&)> piece)
      : decoder_(tokenizer, special), stop_(std::move(stop_strings)), piece_(std::move(piece)) {}

  // The text that is certain once `token` has been added.
  std::string push(int32_t token) { return stop_.feed(decoder_.push(token)); }

  // The text that was held back, when no token follows. What the decoder still had may complete a stop
  // string.
  std::string flush() {
    std::string text = stop_.feed(decoder_.finish());
    return text += stop_.finish();
  }

  bool stopped() const { return stop_.matched(); }  // by a stop string

  void report(const Piece& piece) {
    text_ += piece.text;
    if (piece_) piece_(piece);
  }

  const std::string& text() const { return text_; }  // all that has been reported

 private:
  StreamDecoder decoder_;
  StopMatcher stop_;
  std::function<void(const Piece&)> piece_;
  std::string text_;
};

}  // namespace weir
