#include "generate/autoregressive.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir {
namespace {

// Rows of the head beyond the tokenizer's last token stand for nothing, so they are never chosen.
int64_t vocabulary_of(const qwen::Model& model, const Tokenizer& tokenizer) {
  return std::min<int64_t>(model.config().vocabulary, tokenizer.vocab_size());
}

bool is_reusable(const HeldSequence& held, const std::vector<int32_t>& prompt) {
  return !held.tokens.empty() && held.tokens.size() < prompt.size() &&
         std::equal(held.tokens.begin(), held.tokens.end(), prompt.begin());
}

}  // namespace

Result<std::unique_ptr<Generation>> AutoregressiveGeneration::start(qwen::Model& model,
                                                                    const Tokenizer& tokenizer,
                                                                    GenerationRequest request,
                                                                    GenerationCallbacks callbacks,
                                                                    HeldSequence&& held) {
  const qwen::Config& config = model.config();
  WEIR_CHECK(held.state.position == static_cast<int64_t>(held.tokens.size()));
  WEIR_RETURN_IF_ERROR(
      validate(request, {vocabulary_of(model, tokenizer), config.context, model.max_rows()}));
  if (request.denoising) {
    return Error{Code::kInvalidArgument, "denoising settings were given to a model that does not denoise",
                 "they belong to DiffusionGemma"};
  }
  if (request.context == 0) request.context = config.context;
  if (request.chunk == 0) request.chunk = model.max_rows();
  HeldSequence sequence = std::exchange(held, {});
  if (!is_reusable(sequence, request.prompt)) {
    sequence = {};
    WEIR_TRY(sequence.state, model.new_sequence());
  }
  return std::unique_ptr<Generation>(new AutoregressiveGeneration(
      model, tokenizer, std::move(request), std::move(callbacks), std::move(sequence.state)));
}

AutoregressiveGeneration::AutoregressiveGeneration(qwen::Model& model, const Tokenizer& tokenizer,
                                                   GenerationRequest request, GenerationCallbacks callbacks,
                                                   SequenceState state)
    : model_(model),
      request_(std::move(request)),
      callbacks_(std::move(callbacks)),
      prompt_tokens_(request_.prompt.size()),
      tokens_(std::move(request_.prompt)),
      state_(std::move(state)),
      sampler_(request_.sampling, vocabulary_of(model, tokenizer)),
      decoder_(tokenizer, SpecialTokens::kSkip),
      stop_(request_.stop_strings),
      started_(Clock::now()) {
  sampler_.add_prompt(tokens_);
  statistics_.prompt_tokens = static_cast<int64_t>(prompt_tokens_);
  statistics_.reused_tokens = state_.position;
}

Result<bool> AutoregressiveGeneration::step() {
  if (finished()) return true;
  if (callbacks_.cancel != nullptr && callbacks_.cancel->load()) {
    end(FinishReason::kCancelled);
    return true;
  }
  if (Status status = advance(); !status.ok()) {
    state_ = {};
    finish_ = FinishReason::kError;
    return std::move(status).error();
  }
  return finished();
}

Status AutoregressiveGeneration::advance() {
  const auto begin = Clock::now();
  const bool in_prompt = statistics_.generated_tokens == 0;
  if (!in_prompt) statistics_.bytes_moved += model_.bytes_per_token(state_.position);
  WEIR_TRY(const auto logits, feed());
  std::optional<Sampled> sampled;
  if (!logits.empty()) {
    WEIR_TRY(sampled, choose(logits));
  }
  const auto now = Clock::now();
  (in_prompt ? statistics_.prefill_seconds : statistics_.decode_seconds) += Seconds(now - begin).count();
  if (in_prompt && callbacks_.prompt) {
    callbacks_.prompt(static_cast<uint64_t>(state_.position), prompt_tokens_);
  }
  if (!sampled) return Ok{};
  if (in_prompt) statistics_.first_token_seconds = Seconds(now - started_).count();
  ++statistics_.generated_tokens;
  accept(*sampled);
  return Ok{};
}

// Feeds the next chunk. The logits after the newest token, or none while others are left to feed.
Result<std::span<const float>> AutoregressiveGeneration::feed() {
  const auto tokens = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(state_.position));
  const auto chunk = tokens.first(std::min(tokens.size(), static_cast<size_t>(request_.chunk)));
  const auto last_row = static_cast<int32_t>(chunk.size()) - 1;
  const Segment segment{&state_, 0, static_cast<int64_t>(chunk.size())};
  Batch batch;
  batch.tokens = chunk;
  batch.segments = {&segment, 1};
  if (chunk.size() == tokens.size()) batch.wanted = {&last_row, 1};
  return model_.run(batch);
}

Result<Sampled> AutoregressiveGeneration::choose(std::span<const float> logits) {
  Draw draw;
  draw.sequence = request_.sequence;
  draw.step = static_cast<uint32_t>(tokens_.size());
  draw.top_logprobs = request_.top_logprobs;
  return sampler_.sample(logits.first(static_cast<size_t>(sampler_.vocabulary())), draw);
}

void AutoregressiveGeneration::accept(const Sampled& sampled) {
  const auto& ends = request_.end_tokens;
  if (std::find(ends.begin(), ends.end(), sampled.token) != ends.end()) return end(FinishReason::kStop);
  tokens_.push_back(sampled.token);
  sampler_.add_generated(sampled.token);
  std::string text = stop_.feed(decoder_.push(sampled.token));
  const auto generated = static_cast<int64_t>(tokens_.size() - prompt_tokens_);
  if (stop_.matched()) {
    finish_ = FinishReason::kStopString;
  } else if (generated == request_.max_tokens) {
    finish_ = FinishReason::kLength;
  } else if (static_cast<int64_t>(tokens_.size()) == request_.context) {
    finish_ = FinishReason::kContext;
  }
  if (finished()) text += flush();
  report({sampled.token, text, sampled.logprobs ? &*sampled.logprobs : nullptr});
}

// Ends the answer between two of its tokens.
void AutoregressiveGeneration::end(FinishReason reason) {
  finish_ = reason;
  const std::string text = flush();
  if (!text.empty()) report({std::nullopt, text, nullptr});
}

// The text that was held back. What the decoder still had may complete a stop string.
std::string AutoregressiveGeneration::flush() {
  std::string text = stop_.feed(decoder_.finish());
  text += stop_.finish();
  if (stop_.matched()) finish_ = FinishReason::kStopString;
  return text;
}

void AutoregressiveGeneration::report(const Piece& piece) {
  text_ += piece.text;
  if (callbacks_.piece) callbacks_.piece(piece);
}

HeldSequence AutoregressiveGeneration::release() {
  if (!finished()) finish_ = FinishReason::kCancelled;
  HeldSequence held;
  held.tokens.assign(tokens_.begin(), tokens_.begin() + state_.position);
  held.state = std::exchange(state_, {});
  return held;
}

}  // namespace weir
