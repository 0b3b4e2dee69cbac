// What both models demand of a pass.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace weir {

// Errors: kInvalidArgument, each with the number found and the one that is possible.
Status check_rows(int64_t rows, int64_t most, const char* hint);
Status check_tokens(std::span<const int32_t> tokens, int64_t vocabulary);
Status check_reach(int64_t end, int64_t context);  // `end` tokens of a sequence

}  // namespace weir
