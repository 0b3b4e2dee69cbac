// What every way of generating shares: why an answer ended and what it cost.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

enum class FinishReason {
  kStop,        // the model ended its answer
  kStopString,  // a stop string of the request
  kLength,      // max_tokens of the request
  kContext,     // no position left in the context
  kCancelled,   // the caller asked
  kError,       // a step failed and returned its error
};

std::string_view finish_reason_name(
    FinishReason reason);  // "stop", "stop-string", "length", "context", "cancelled", "error"

struct GenerationStatistics {
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;     // of the prompt, found in the sequence that was passed in
  int64_t generated_tokens = 0;  // with the one that ended the answer, if any

  // Spent in the steps that fed the prompt, with the choice of the first token, and in those after it: the
  // speeds are (prompt_tokens - reused_tokens) / prefill_seconds and (generated_tokens - 1) / decode_seconds.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double first_token_seconds = 0;  // wall time from start to the first token

  uint64_t bytes_moved = 0;  // that decoding had to move at least: weights, states, keys and values
};

}  // namespace weir
