// Block diffusion with DiffusionGemma: feeds the prompt in chunks, then denoises one canvas after the other.
//
// What a canvas ends with is committed: its tokens join the sequence, and their keys and values are computed
// causally. That commit pass, and the last chunk of the prompt, go through the model together with the first
// step of the next canvas: one sweep over the weights less, and the same bits, as a layer's canvas rows read
// committed keys and values of that layer only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/answer_text.h"
#include "generate/canvas.h"
#include "generate/denoising.h"
#include "generate/generation.h"
#include "generate/request.h"
#include "models/diffusion_gemma/model.h"
#include "text/tokenizer.h"

namespace weir {

class PassRows;

class DiffusionGeneration final : public Generation {
 public:
  // Checks the request, then takes over `held`: of its state is reused what it has in common with the
  // beginning of the prompt. Of the request's sampling only the seed counts: the denoising schedule is the
  // temperature. `model` and `tokenizer` must outlive the generation. Errors: kInvalidArgument when the
  // prompt is empty, leaves no room for a canvas in the context (naming the numbers) or holds an unknown
  // token, when another field is out of range, or when the request asks for what a canvas cannot give
  // (logprobs, penalties, logit bias, other samplers); `held` is then untouched. kOutOfMemory.
  static Result<std::unique_ptr<DiffusionGeneration>> start(diffusion_gemma::Model& model,
                                                            const Tokenizer& tokenizer,
                                                            GenerationRequest request,
                                                            GenerationCallbacks callbacks = {},
                                                            HeldSequence&& held = {});

  // What start() asks of a request. From any thread.
  static Status check(const diffusion_gemma::Model& model, const GenerationRequest& request);

  Result<bool> step() override;
  bool finished() const override { return finish_.has_value(); }
  FinishReason finish_reason() const override { return *finish_; }
  const std::optional<Error>& error() const override { return error_; }
  const GenerationStatistics& statistics() const override { return statistics_; }
  const std::string& text() const override { return answer_text_.text(); }
  std::span<const int32_t> answer() const override { return std::span(tokens_).subspan(prompt_tokens_); }
  HeldSequence release() override;

  // Makes the random numbers of a canvas, for tests that bring their own.
  using MakeDraws = std::function<std::unique_ptr<CanvasDraws>(int64_t canvas)>;
  void use_draws(MakeDraws make) { make_draws_ = std::move(make); }

 private:
  friend Status step_together(diffusion_gemma::Model& model,
                              std::span<DiffusionGeneration* const> generations);

  using Clock = std::chrono::steady_clock;

  DiffusionGeneration(diffusion_gemma::Model& model, const Tokenizer& tokenizer, GenerationRequest request,
                      GenerationCallbacks callbacks, SequenceState state);

  static Status run_pass(diffusion_gemma::Model& model, std::vector<DiffusionGeneration*>& waiting);
  std::span<const int32_t> pending() const;
  int64_t rows_wanted(int64_t most) const;
  void add_causal(PassRows& pass, int64_t most);
  void add_canvas(PassRows& pass);
  void absorb(std::span<const Belief> beliefs, double seconds, int64_t rows);
  void account(double seconds, int64_t rows);
  void show(double seconds);
  void begin_check();
  void take_check(std::span<const Belief> beliefs);
  void commit();
  void accept(int32_t token);
  bool repeats(std::span<const int32_t> block, size_t i) const;
  void end(FinishReason reason);
  void fail(Error error);

  diffusion_gemma::Model& model_;
  GenerationRequest request_;  // its prompt has moved to tokens_
  Denoising denoising_;
  GenerationCallbacks callbacks_;
  MakeDraws make_draws_;
  size_t prompt_tokens_ = 0;
  std::vector<int32_t> tokens_;  // prompt and committed answer
  SequenceState state_;          // after the first state_.position tokens
  std::optional<CanvasState> canvas_state_;
  std::optional<Canvas> canvas_;
  std::vector<int32_t> draft_;  // what the causal check reads: the last committed token and a finished canvas

  // Of this generation in the present pass.
  int64_t causal_rows_ = 0, canvas_rows_ = 0;
  size_t first_inquiry_ = 0, inquiries_ = 0;

  AnswerText answer_text_;
  std::optional<FinishReason> finish_;
  std::optional<Error> error_;
  GenerationStatistics statistics_;
  Clock::time_point started_;
};

// One step of several generations on one model: their canvases are denoised in one pass, which reads the
// weights once. Each takes the same steps as alone, bit for bit. Generations that do not fit into a pass
// together go through several. After an error every generation of the pass that failed has ended.
Status step_together(diffusion_gemma::Model& model, std::span<DiffusionGeneration* const> generations);

}  // namespace weir
