// Autoregressive generation with Qwen3.6: feeds the prompt in chunks, then one token after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/answer_text.h"
#include "generate/draft.h"
#include "generate/generation.h"
#include "generate/guide.h"
#include "generate/request.h"
#include "generate/sampler.h"
#include "kernels/state.h"
#include "models/qwen/model.h"
#include "text/tokenizer.h"

namespace weir {

// An answer that grows token by token: each step() feeds at most a chunk of the tokens that the sequence does
// not hold yet and, when none is left, chooses the next token.
//
// With drafts, the pass that leads to a token also feeds guesses of the ones behind it. Each row of logits is
// sampled as it would be alone, and the first that gives another token than the guess ends the step. What the
// wrong guesses left in the sequence is undone by going back to where it was before the pass; the answer's
// tokens that were fed since are fed again by the next pass. As no row's result depends on the rows beside
// it, the answer is the one without drafts, on the CPU bit for bit.
class AutoregressiveGeneration final : public Generation {
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

  // What start() asks of a request. From any thread.
  static Status check(const qwen::Model& model, const Tokenizer& tokenizer, const GenerationRequest& request);

  Result<bool> step() override;
  bool finished() const override { return finish_.has_value(); }
  FinishReason finish_reason() const override { return *finish_; }
  const std::optional<Error>& error() const override { return error_; }
  const GenerationStatistics& statistics() const override { return statistics_; }
  const std::string& text() const override { return answer_text_.text(); }
  std::span<const int32_t> answer() const override { return std::span(tokens_).subspan(prompt_tokens_); }
  HeldSequence release() override;

  // Makes at most `most` guesses of what follows `tokens`, whether it pays or not, for tests that bring their
  // own.
  using MakeDraft = std::function<std::vector<int32_t>(std::span<const int32_t> tokens, int64_t most)>;
  void use_draft(MakeDraft make) { guess_ = std::move(make); }

  // Drafts whether it pays or not, for tests.
  void always_draft() { always_ = true; }

 private:
  friend Status step_together(qwen::Model& model, std::span<AutoregressiveGeneration* const> generations);

  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  AutoregressiveGeneration(qwen::Model& model, const Tokenizer& tokenizer, GenerationRequest request,
                           GenerationCallbacks callbacks, SequenceState state,
                           std::unique_ptr<TokenChooser> chooser);

  class Pass;

  static void run_pass(qwen::Model& model, std::vector<AutoregressiveGeneration*>& waiting);
  bool in_prompt() const { return statistics_.generated_tokens == 0; }
  std::span<const int32_t> next_chunk() const;
  bool is_last(std::span<const int32_t> chunk) const;
  void count_bytes();
  bool may_draft() const { return always_ || gauge_.pays(); }
  void make_draft();
  std::vector<int32_t> guesses(int64_t most) const;
  void ask_draft_head(int64_t first, int64_t rows);
  void take_rows(std::span<const float> logits, int64_t rows, double seconds);
  void step_on_device();
  Result<std::optional<Sampled>> next_on_device();
  Status feed_chosen();
  Result<std::optional<Sampled>> choose(std::span<const float> logits);
  void take(Result<std::optional<Sampled>> sampled, double seconds);
  void fail(Error error);
  void accept(const Sampled& sampled);
  void end(FinishReason reason);
  std::string flush();

  qwen::Model& model_;
  GenerationRequest request_;  // its prompt has moved to tokens_
  GenerationCallbacks callbacks_;
  size_t prompt_tokens_ = 0;
  std::vector<int32_t> tokens_;  // prompt and answer
  SequenceState state_;          // after the first state_.position tokens
  Sampler sampler_;
  Guide guide_;
  // Set when the backend chooses. A token then passes through the model before the host has seen it, so that
  // the device need not wait for the host; the end token may have passed through too.
  std::unique_ptr<TokenChooser> chooser_;
  std::optional<int32_t> fed_end_;
  // Guesses that the present pass checks, and where the sequence was before it.
  std::vector<int32_t> draft_;
  qwen::Model::Bookmark bookmark_;
  DraftGauge gauge_;
  MakeDraft guess_;
  bool always_ = false;
  // Set when the model's draft head guesses: the pairs that it has seen, the position of the next one, what
  // it guessed last, and the time that it took since the gauge last heard.
  std::optional<SequenceState> pairs_;
  int64_t next_pair_ = 0;
  std::vector<int32_t> guessed_;
  double head_seconds_ = 0;
  AnswerText answer_text_;
  std::optional<FinishReason> finish_;
  std::optional<Error> error_;
  GenerationStatistics statistics_;
  Clock::time_point started_;
};

// One step of several generations on one model. Those whose tokens the host chooses share passes, which read
// the weights once, as far as these have room; each takes the same steps as alone, on the CPU bit for bit. A
// pass's time is shared out over its rows. Returns the first error; the generations of the pass that failed
// have ended.
Status step_together(qwen::Model& model, std::span<AutoregressiveGeneration* const> generations);

}  // namespace weir
