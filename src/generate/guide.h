// What an answer is held to while it grows: a grammar, and a limit on its thinking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grammar/token_matcher.h"
#include "text/tokenizer.h"

namespace weir {

// An answer that begins with thinking thinks for at most `tokens` tokens.
struct ThinkingLimit {
  int64_t tokens = 0;           // at least 1
  std::string end;              // the text that ends the thinking
  std::vector<int32_t> forced;  // what follows the last of these tokens if they hold no such text; it does
};

class Guide {
 public:
  // `grammar` may be null. `tokenizer` must outlive the guide.
  Guide(const Tokenizer& tokenizer, std::shared_ptr<const grammar::TokenGrammar> grammar,
        std::optional<ThinkingLimit> limit, const std::vector<int32_t>& end_tokens);

  // The mask of the next token, as Draw::allowed has it; empty: all may follow. Valid until the next call.
  std::span<const uint32_t> allowed(int64_t vocabulary);

  // A token of the answer; with a grammar, one that was allowed.
  void accept(int32_t token);

  // The tokens that must follow now, once.
  std::vector<int32_t> take_forced();

 private:
  const Tokenizer* tokenizer_;
  std::optional<grammar::TokenMatcher> matcher_;
  std::optional<ThinkingLimit> limit_;  // unset once the thinking is over
  int64_t thought_ = 0;                 // tokens
  std::string tail_;                    // of the thinking, as long as its end may begin there
};

}  // namespace weir
