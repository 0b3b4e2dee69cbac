// What every way of generating shares: an answer in the making, why it ended and what it cost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "generate/canvas_frame.h"
#include "generate/sampler.h"
#include "kernels/state.h"

namespace weir {

enum class FinishReason {
  kStop,        // the model ended its answer
  kStopString,  // a stop string of the request
  kLength,      // max_tokens of the request
  kContext,     // no position left in the context
  kRepetition,  // one token stood too often in a row
  kCancelled,   // the caller asked
  kError,       // a step failed and returned its error
};

std::string_view finish_reason_name(FinishReason reason);  // "stop", "stop-string", "length", "context",
                                                           // "repetition", "cancelled", "error"

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

  int64_t drafted_tokens = 0;  // guessed and checked, and those of them that the answer took
  int64_t accepted_tokens = 0;

  // Block diffusion only.
  int64_t canvases = 0;
  int64_t denoising_passes = 0;
  int64_t canvas_rows = 0;  // rows that these passes forwarded
};

// A sequence's state and exactly the tokens that have passed through it. A default one is empty.
struct HeldSequence {
  SequenceState state;
  std::vector<int32_t> tokens;
};

// A generated token and the text that it completes. The text may lag behind (unfinished characters, a
// possible stop string), so it may be empty. The last piece may have text and no token: what was held back
// when the answer ended. The token that ends an answer is not part of it and never reported. Views are valid
// during the call.
struct Piece {
  std::optional<int32_t> token;
  std::string_view text;
  const Logprobs* logprobs = nullptr;  // set when the request asks for them and there is a token
};

struct GenerationCallbacks {
  Progress prompt;  // tokens of the prompt held so far, and all of them; after each chunk
  std::function<void(const Piece&)> piece;
  std::function<void(const CanvasFrame&)> canvas;  // after each denoising step; block diffusion only
  // The sequence when exactly as many tokens of the prompt as one of the request's checkpoints says have
  // passed through it. It goes on afterwards, so who wants to keep it takes a copy.
  std::function<void(const SequenceState&)> checkpoint;
  const std::atomic<bool>* cancel = nullptr;  // checked before every step; may be set from a signal handler
};

// One answer in the making. Each step() feeds a part of the prompt or makes a part of the answer, so several
// generations on one model can take turns.
class Generation {
 public:
  virtual ~Generation() = default;

  // One pass through the model. Returns true once the answer has ended; further calls do nothing. After an
  // error (kDevice, kOutOfMemory, kInternal) the generation has ended and holds no sequence.
  virtual Result<bool> step() = 0;

  virtual bool finished() const = 0;
  virtual FinishReason finish_reason() const = 0;         // only when finished
  virtual const std::optional<Error>& error() const = 0;  // set with FinishReason::kError
  virtual const GenerationStatistics& statistics() const = 0;

  virtual const std::string& text() const = 0;  // of the answer, as far as it has been reported
  // The tokens of the answer so far, without the one that ended it.
  virtual std::span<const int32_t> answer() const = 0;

  // The sequence, to be passed to the next generation. Between steps it is whole, also before the end of the
  // answer and after a cancellation; the newest tokens of the answer may not be in it yet, and the token that
  // ended it may be. The generation has ended afterwards.
  virtual HeldSequence release() = 0;

  // Steps until the answer has ended.
  Status run() {
    while (!finished()) WEIR_RETURN_IF_ERROR(step());
    return Ok{};
  }
};

}  // namespace weir
