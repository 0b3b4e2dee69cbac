// A rendered prompt in tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "chat/prompt.h"
#include "text/tokenizer.h"

namespace weir {

// Encodes piece by piece: only control pieces become added tokens. Errors: kInvalidArgument when a message is
// not valid UTF-8, kUnsupported when the tokenizer has no token for a marker, and those of Tokenizer::encode.
Result<std::vector<int32_t>> prompt_tokens(const Prompt& prompt, const Tokenizer& tokenizer);

}  // namespace weir
