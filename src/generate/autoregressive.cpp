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

ChoiceRules rules_of(const GenerationRequest& request, int64_t vocabulary) {
  const Sampling& s = request.sampling;
  ChoiceRules rules;
  rules.vocabulary = vocabulary;
  rules.temperature = s.temperature;
  rules.top_k = s.top_k;
  rules.top_p = s.top_p;
  rules.min_p = s.min_p;
  rules.presence_penalty = s.presence_penalty;
  rules.frequency_penalty = s.frequency_penalty;
  rules.repetition_penalty = s.repetition_penalty;
  rules.logit_bias = s.logit_bias;
  rules.seed = s.seed;
  rules.sequence = request.sequence;
  return rules;
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
  std::unique_ptr<TokenChooser> chooser;
  if (!request.top_logprobs) {
    const ChoiceRules rules = rules_of(request, vocabulary_of(model, tokenizer));
    WEIR_TRY(chooser, model.steps().make_chooser(rules, request.prompt));
  }
  return std::unique_ptr<Generation>(
      new AutoregressiveGeneration(model, tokenizer, std::move(request), std::move(callbacks),
                                   std::move(sequence.state), std::move(chooser)));
}

AutoregressiveGeneration::AutoregressiveGeneration(qwen::Model& model, const Tokenizer& tokenizer,
                                                   GenerationRequest request, GenerationCallbacks callbacks,
                                                   SequenceState state, std::unique_ptr<TokenChooser> chooser)
    : model_(model),
      request_(std::move(request)),
      callbacks_(std::move(callbacks)),
      prompt_tokens_(request_.prompt.size()),
      tokens_(std::move(request_.prompt)),
      state_(std::move(state)),
      sampler_(request_.sampling, vocabulary_of(model, tokenizer)),
      chooser_(std::move(chooser)),
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
  WEIR_TRY(const auto sampled, chooser_ ? next_on_device() : next_on_host());
  const auto now = Clock::now();
  (in_prompt ? statistics_.prefill_seconds : statistics_.decode_seconds) += Seconds(now - begin).count();
  if (in_prompt && callbacks_.prompt) {
    callbacks_.prompt(std::min(static_cast<uint64_t>(state_.position), uint64_t{prompt_tokens_}),
                      prompt_tokens_);
  }
  if (!sampled) return Ok{};
  if (in_prompt) statistics_.first_token_seconds = Seconds(now - started_).count();
  ++statistics_.generated_tokens;
  accept(*sampled);
  return Ok{};
}

// The next tokens to feed. Logits are wanted when they are the last ones.
struct AutoregressiveGeneration::Chunk {
  std::span<const int32_t> tokens;
  Segment segment;
  int32_t last_row = 0;
  bool is_last = false;

  Batch batch() const {
    return {.tokens = tokens, .segments = {&segment, 1}, .wanted = {&last_row, is_last ? 1u : 0u}};
  }
};

AutoregressiveGeneration::Chunk AutoregressiveGeneration::next_chunk() {
  const auto left = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(state_.position));
  Chunk chunk;
  chunk.tokens = left.first(std::min(left.size(), static_cast<size_t>(request_.chunk)));
  chunk.segment = {&state_, 0, static_cast<int64_t>(chunk.tokens.size())};
  chunk.last_row = static_cast<int32_t>(chunk.tokens.size()) - 1;
  chunk.is_last = chunk.tokens.size() == left.size();
  return chunk;
}

// Feeds a chunk. The next token, or none while others are left to feed.
Result<std::optional<Sampled>> AutoregressiveGeneration::next_on_host() {
  const Chunk chunk = next_chunk();
  WEIR_TRY(const auto logits, model_.run(chunk.batch()));
  if (!chunk.is_last) return std::optional<Sampled>();
  WEIR_TRY(Sampled sampled, choose(logits));
  return std::optional(std::move(sampled));
}

// The same. A token's pass is queued before the token is waited for.
Result<std::optional<Sampled>> AutoregressiveGeneration::next_on_device() {
  if (state_.position < static_cast<int64_t>(tokens_.size())) {
    const Chunk chunk = next_chunk();
    if (!chunk.is_last) {
      WEIR_RETURN_IF_ERROR(model_.run(chunk.batch()));
      return std::optional<Sampled>();
    }
    WEIR_RETURN_IF_ERROR(model_.queue(chunk.batch(), *chooser_));
  }
  WEIR_RETURN_IF_ERROR(feed_chosen());
  WEIR_TRY(const int32_t token, chooser_->take());
  return std::optional(Sampled{token, std::nullopt});
}

// Queues the pass of the token that was chosen last and not taken yet, unless it is the last one allowed.
Status AutoregressiveGeneration::feed_chosen() {
  const auto with_it = static_cast<int64_t>(tokens_.size()) + 1;
  const bool is_last = with_it - static_cast<int64_t>(prompt_tokens_) == request_.max_tokens;
  if (is_last || with_it == request_.context) return Ok{};
  constexpr int32_t kToken = 0, kRow = 0;
  const Segment segment{&state_, 0, 1};
  return model_.queue(
      {.tokens = {&kToken, 1}, .segments = {&segment, 1}, .wanted = {&kRow, 1}, .chosen = chooser_.get()},
      *chooser_);
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
  if (std::find(ends.begin(), ends.end(), sampled.token) != ends.end()) {
    if (state_.position > static_cast<int64_t>(tokens_.size())) fed_end_ = sampled.token;
    return end(FinishReason::kStop);
  }
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
  chooser_.reset();  // waits for the pass under way
  held.tokens = tokens_;
  if (fed_end_) held.tokens.push_back(*fed_end_);
  held.tokens.resize(static_cast<size_t>(state_.position));
  held.state = std::exchange(state_, {});
  return held;
}

}  // namespace weir
