// Autoregressive generation with Qwen3.6: feeds the prompt in chunks, then one token after the other.
#pragma once

#include <atomic>
#include <chrono>
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
#include "generate/generation.h"
#include "generate/request.h"
#include "generate/sampler.h"
#include "generate/stop.h"
#include "kernels/state.h"
#include "models/qwen/model.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace weir {

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
  const std::atomic<bool>* cancel = nullptr;  // checked before every step; may be set from a signal handler
};

// One answer in the making. Each step() feeds at most a chunk of the tokens that the sequence does not hold
// yet and, when none is left, chooses the next token; so several generations on one model can take turns.
class Generation {
 public:
  // Checks the request, then takes over `held`: its state is reused when its tokens are the beginning of the
  // prompt and at least one token is left to feed. A recurrent state cannot be cut back, so otherwise it is
  // dropped and the prompt fed from the start. `model` and `tokenizer` must outlive the generation. Errors:
  // kInvalidArgument when the prompt is empty, leaves no room in the context (naming both numbers) or holds
  // an unknown token, or when another field is out of range; `held` is then untouched. kOutOfMemory.
  static Result<std::unique_ptr<Generation>> start(qwen::Model& model, const Tokenizer& tokenizer,
                                                   GenerationRequest request,
                                                   GenerationCallbacks callbacks = {},
                                                   HeldSequence&& held = {});

  // One chunk or one token. Returns true once the answer has ended; further calls do nothing. After an error
  // (kDevice, kOutOfMemory, kInternal) the generation has ended and holds no sequence.
  Result<bool> step();

  // Steps until the answer has ended.
  Status run();

  bool finished() const { return finish_.has_value(); }
  FinishReason finish_reason() const { return *finish_; }  // only when finished
  const GenerationStatistics& statistics() const { return statistics_; }

  const std::string& text() const { return text_; }  // of the answer, as far as it has been reported
  // The tokens of the answer so far, without the one that ended it.
  std::span<const int32_t> answer() const { return std::span(tokens_).subspan(prompt_tokens_); }

  // The sequence, to be passed to the next start(). Between steps it is whole, also before the end of the
  // answer and after a cancellation; the newest token of the answer is usually not in it yet. The generation
  // has ended afterwards.
  HeldSequence release();

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  Generation(qwen::Model& model, const Tokenizer& tokenizer, GenerationRequest request,
             GenerationCallbacks callbacks, SequenceState state);

  Status advance();
  Result<std::span<const float>> feed();
  Result<Sampled> choose(std::span<const float> logits);
  void accept(const Sampled& sampled);
  void end(FinishReason reason);
  std::string flush();
  void report(const Piece& piece);

  qwen::Model& model_;
  GenerationRequest request_;  // its prompt has moved to tokens_
  GenerationCallbacks callbacks_;
  size_t prompt_tokens_ = 0;
  std::vector<int32_t> tokens_;  // prompt and answer
  SequenceState state_;          // after the first state_.position tokens
  Sampler sampler_;
  StreamDecoder decoder_;
  StopMatcher stop_;
  std::string text_;
  std::optional<FinishReason> finish_;
  GenerationStatistics statistics_;
  Clock::time_point started_;
};

}  // namespace weir
