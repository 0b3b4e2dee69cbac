#include "models/pass_checks.h"

#include <string>

namespace weir {

Status check_rows(int64_t rows, int64_t most, const char* hint) {
  if (rows >= 1 && rows <= most) return {};
  return Error{Code::kInvalidArgument,
               "a pass of " + std::to_string(rows) + " rows, expected 1 to " + std::to_string(most), hint};
}

Status check_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    return Error{
        Code::kInvalidArgument,
        "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocabulary),
        "use the tokenizer that belongs to the model"};
  }
  return {};
}

Status check_reach(int64_t end, int64_t context) {
  if (end <= context) return {};
  return Error{Code::kInvalidArgument,
               "the sequence would reach " + std::to_string(end) + " tokens, the model's context is " +
                   std::to_string(context),
               "shorten the prompt or ask for fewer tokens"};
}

}  // namespace weir
