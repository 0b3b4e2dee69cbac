// Texts in which a model predicts one token after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/layout.h"
#include "text/tokenizer.h"

namespace weir::cli {

struct Passage {
  std::vector<int32_t> tokens;
  size_t scored_from = 1;  // the tokens from here on are predicted
};

// A file in the format of GSM8K: each problem as a prompt without thinking, behind it the file's answer and
// the token that ends it, which are predicted. Any other file: its text in windows of `window` tokens, each
// of which predicts all but its first. At most `limit` passages (0: all). Errors: kNotFound, kCorrupt when
// there is nothing to predict, and those of the tokenizer.
Result<std::vector<Passage>> read_passages(const std::string& path, const Tokenizer& tokenizer,
                                           ChatLayout layout, size_t window, size_t limit);

}  // namespace weir::cli
