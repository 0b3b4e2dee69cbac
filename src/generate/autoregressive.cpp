#include "generate/autoregressive.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "generate/choice_rules.h"

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

Status AutoregressiveGeneration::check(const qwen::Model& model, const Tokenizer& tokenizer,
                                       const GenerationRequest& request) {
  WEIR_RETURN_IF_ERROR(
      validate(request, {vocabulary_of(model, tokenizer), model.config().context, model.max_rows()}));
  if (request.draft == Draft::kHead && !model.has_draft_head()) {
    return Error{Code::kInvalidArgument,
                 "guesses of the draft head were asked for, but the model was loaded without it", ""};
  }
  if (!request.denoising) return Ok{};
  return Error{Code::kInvalidArgument, "denoising settings were given to a model that does not denoise",
               "they belong to DiffusionGemma"};
}

Result<std::unique_ptr<Generation>> AutoregressiveGeneration::start(qwen::Model& model,
                                                                    const Tokenizer& tokenizer,
                                                                    GenerationRequest request,
                                                                    GenerationCallbacks callbacks,
                                                                    HeldSequence&& held) {
  const qwen::Config& config = model.config();
  WEIR_CHECK(held.state.position == static_cast<int64_t>(held.tokens.size()));
  WEIR_RETURN_IF_ERROR(check(model, tokenizer, request));
  if (request.context == 0) request.context = config.context;
  if (request.chunk == 0) request.chunk = model.max_rows();
  HeldSequence sequence = std::exchange(held, {});
  if (!is_reusable(sequence, request.prompt)) {
    sequence = {};
    WEIR_TRY(sequence.state, model.new_sequence());
  }
  std::unique_ptr<TokenChooser> chooser;
  if (!request.top_logprobs && !request.grammar) {
    const ChoiceRules rules =
        choice_rules(request.sampling, vocabulary_of(model, tokenizer), request.sequence);
    WEIR_TRY(chooser, model.steps().make_chooser(rules, request.prompt));
  }
  std::unique_ptr<AutoregressiveGeneration> generation(
      new AutoregressiveGeneration(model, tokenizer, std::move(request), std::move(callbacks),
                                   std::move(sequence.state), std::move(chooser)));
  if (generation->request_.draft == Draft::kHead) {
    WEIR_TRY(generation->pairs_, model.new_draft_sequence());
  }
  return std::unique_ptr<Generation>(std::move(generation));
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
      guide_(tokenizer, request_.grammar, request_.thinking, request_.end_tokens),
      chooser_(std::move(chooser)),
      answer_text_(tokenizer, SpecialTokens::kSkip, request_.stop_strings, callbacks_.piece),
      started_(Clock::now()) {
  sampler_.add_prompt(tokens_);
  statistics_.prompt_tokens = static_cast<int64_t>(prompt_tokens_);
  statistics_.reused_tokens = state_.position;
}

Result<bool> AutoregressiveGeneration::step() {
  AutoregressiveGeneration* self = this;
  if (!finished()) WEIR_RETURN_IF_ERROR(step_together(model_, {&self, 1}));
  return finished();
}

// The next tokens to feed: logits are wanted when they are the last ones.
std::span<const int32_t> AutoregressiveGeneration::next_chunk() const {
  const auto left = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(state_.position));
  const int64_t most = std::min(static_cast<int64_t>(left.size()), request_.chunk);
  const int64_t count = request_.tokens_to_checkpoint(state_.position, most);
  return left.first(static_cast<size_t>(count));
}

bool AutoregressiveGeneration::is_last(std::span<const int32_t> chunk) const {
  return static_cast<size_t>(state_.position) + chunk.size() == tokens_.size();
}

void AutoregressiveGeneration::count_bytes() {
  if (!in_prompt()) statistics_.bytes_moved += model_.bytes_per_token(state_.position);
}

// The chunks of several generations, one behind the other, each with its drafts behind it.
class AutoregressiveGeneration::Pass {
 public:
  bool has_room(const qwen::Model& model, const AutoregressiveGeneration& g) const {
    const auto rows_more = static_cast<int64_t>(g.next_chunk().size() + g.draft_.size());
    return taken_.empty() || (rows() + rows_more <= model.max_rows() &&
                              static_cast<int64_t>(wanted_.size()) + wanted_of(g) <= model.max_wanted());
  }

  void add(AutoregressiveGeneration& g) {
    const auto chunk = g.next_chunk();
    const int64_t wanted = wanted_of(g), before = rows();
    tokens_.insert(tokens_.end(), chunk.begin(), chunk.end());
    tokens_.insert(tokens_.end(), g.draft_.begin(), g.draft_.end());
    taken_.push_back({&g, rows() - before, wanted});
    segments_.push_back({&g.state_, before, rows() - before});
    for (int64_t row = rows() - wanted; row < rows(); ++row) wanted_.push_back(static_cast<int32_t>(row));
  }

  void run(qwen::Model& model) {
    const auto begin = Clock::now();
    const auto logits = model.run({.tokens = tokens_, .segments = segments_, .wanted = wanted_});
    // Nothing has passed through the model yet, and not all of them lack memory.
    if (!logits.ok() && logits.error().code == Code::kOutOfMemory && taken_.size() > 1)
      return run_apart(model);
    const double seconds_a_row = Seconds(Clock::now() - begin).count() / static_cast<double>(rows());
    size_t next = 0;
    const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
    for (const Part& part : taken_) {
      if (!logits.ok()) {
        part.generation->fail(logits.error());
        continue;
      }
      const size_t count = static_cast<size_t>(part.wanted) * vocabulary;
      part.generation->take_rows(logits->subspan(next, count), part.rows,
                                 seconds_a_row * static_cast<double>(part.rows));
      next += count;
    }
  }

 private:
  struct Part {
    AutoregressiveGeneration* generation;
    int64_t rows, wanted;
  };

  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }

  static int64_t wanted_of(const AutoregressiveGeneration& g) {
    return g.is_last(g.next_chunk()) ? 1 + static_cast<int64_t>(g.draft_.size()) : 0;
  }

  void run_apart(qwen::Model& model) {
    for (const Part& part : taken_) {
      Pass alone;
      alone.add(*part.generation);
      alone.run(model);
    }
  }

  std::vector<Part> taken_;
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  std::vector<int32_t> wanted_;
};

// One pass with as many of the waiting generations as fit, in order; they no longer wait.
void AutoregressiveGeneration::run_pass(qwen::Model& model, std::vector<AutoregressiveGeneration*>& waiting) {
  Pass pass;
  std::vector<AutoregressiveGeneration*> left;
  for (AutoregressiveGeneration* g : waiting) {
    g->make_draft();
    if (pass.has_room(model, *g)) {
      g->count_bytes();
      pass.add(*g);
    } else {
      left.push_back(g);
    }
  }
  pass.run(model);
  waiting = std::move(left);
}

// Takes the logits of a pass over `rows` rows: of none, of the last token, or of that and its drafts. Each
// row is sampled as it would be alone, until one gives another token than was guessed.
void AutoregressiveGeneration::take_rows(std::span<const float> logits, int64_t rows, double seconds) {
  const int64_t first = state_.position - rows;
  if (logits.empty()) {
    take(std::optional<Sampled>(), seconds);
    return ask_draft_head(first, rows);
  }
  const bool prefill = in_prompt();
  const auto vocabulary = static_cast<size_t>(model_.config().vocabulary);
  const int64_t before = statistics_.generated_tokens;
  state_.position -= static_cast<int64_t>(draft_.size());  // which are no part of the answer yet
  double spent = 0;
  size_t right = 0;
  for (bool guessed = true; guessed && !finished(); right += guessed ? 1 : 0) {
    const auto begin = Clock::now();
    auto sampled = choose(logits.subspan(right * vocabulary, vocabulary));
    guessed = sampled.ok() && right < draft_.size() && (*sampled)->token == draft_[right];
    seconds += Seconds(Clock::now() - begin).count();
    spent += seconds;
    const size_t size = tokens_.size();
    take(std::move(sampled), std::exchange(seconds, 0));
    guessed = guessed && tokens_.size() <= size + 1;  // no more was forced
    if (guessed) ++state_.position;
  }
  if (error_) return;
  statistics_.drafted_tokens += static_cast<int64_t>(draft_.size());
  statistics_.accepted_tokens += static_cast<int64_t>(right);
  if (!prefill) {
    spent += std::exchange(head_seconds_, 0);
    gauge_.add(rows > 1, spent, statistics_.generated_tokens - before);
  }
  if (right < draft_.size()) model_.go_back(state_, bookmark_);
  ask_draft_head(first, rows);
}

void AutoregressiveGeneration::step_on_device() {
  const auto begin = Clock::now();
  count_bytes();
  auto sampled = next_on_device();
  take(std::move(sampled), Seconds(Clock::now() - begin).count());
}

// Feeds a chunk. The next token, or none while others are left to feed. A token's pass is queued before the
// token is waited for.
Result<std::optional<Sampled>> AutoregressiveGeneration::next_on_device() {
  if (state_.position < static_cast<int64_t>(tokens_.size())) {
    const auto chunk = next_chunk();
    const auto rows = static_cast<int64_t>(chunk.size());
    const auto last_row = static_cast<int32_t>(rows - 1);
    const Segment segment{&state_, 0, rows};
    Batch batch{.tokens = chunk, .segments = {&segment, 1}, .wanted = {}};
    if (!is_last(chunk)) {
      WEIR_RETURN_IF_ERROR(model_.run(batch));
      return std::optional<Sampled>();
    }
    batch.wanted = {&last_row, 1};
    WEIR_RETURN_IF_ERROR(model_.queue(batch, *chooser_));
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

Result<std::optional<Sampled>> AutoregressiveGeneration::choose(std::span<const float> logits) {
  Draw draw;
  draw.sequence = request_.sequence;
  draw.step = static_cast<uint32_t>(tokens_.size());
  draw.allowed = guide_.allowed(sampler_.vocabulary());
  draw.top_logprobs = request_.top_logprobs;
  WEIR_TRY(Sampled sampled, sampler_.sample(logits.first(static_cast<size_t>(sampler_.vocabulary())), draw));
  return std::optional(std::move(sampled));
}

// What a step of `seconds` led to: an error, a token, or neither while tokens are left to feed.
void AutoregressiveGeneration::take(Result<std::optional<Sampled>> sampled, double seconds) {
  if (!sampled.ok()) return fail(std::move(sampled).error());
  const bool prefill = in_prompt();
  (prefill ? statistics_.prefill_seconds : statistics_.decode_seconds) += seconds;
  if (prefill && callbacks_.prompt) {
    callbacks_.prompt(std::min(static_cast<uint64_t>(state_.position), uint64_t{prompt_tokens_}),
                      prompt_tokens_);
  }
  if (prefill && callbacks_.checkpoint && request_.is_checkpoint(state_.position)) {
    callbacks_.checkpoint(state_);
  }
  if (!*sampled) return;
  if (prefill) statistics_.first_token_seconds = Seconds(Clock::now() - started_).count();
  ++statistics_.generated_tokens;
  accept(**sampled);
}

void AutoregressiveGeneration::fail(Error error) {
  state_ = {};
  finish_ = FinishReason::kError;
  error_ = std::move(error);
}

void AutoregressiveGeneration::accept(const Sampled& sampled) {
  const auto& ends = request_.end_tokens;
  if (std::find(ends.begin(), ends.end(), sampled.token) != ends.end()) {
    if (state_.position > static_cast<int64_t>(tokens_.size())) fed_end_ = sampled.token;
    return end(FinishReason::kStop);
  }
  tokens_.push_back(sampled.token);
  sampler_.add_generated(sampled.token);
  guide_.accept(sampled.token);
  std::string text = answer_text_.push(sampled.token);
  const auto generated = static_cast<int64_t>(tokens_.size() - prompt_tokens_);
  if (answer_text_.stopped()) {
    finish_ = FinishReason::kStopString;
  } else if (generated == request_.max_tokens) {
    finish_ = FinishReason::kLength;
  } else if (static_cast<int64_t>(tokens_.size()) == request_.context) {
    finish_ = FinishReason::kContext;
  }
  if (finished()) text += flush();
  answer_text_.report({sampled.token, text, sampled.logprobs ? &*sampled.logprobs : nullptr});
  // The next pass feeds what must follow. A chooser would not know of it, so the host chooses from there on.
  for (const int32_t token : guide_.take_forced()) {
    if (finished()) break;
    chooser_.reset();
    ++statistics_.generated_tokens;
    accept({token, std::nullopt});
  }
}

// Ends the answer between two of its tokens.
void AutoregressiveGeneration::end(FinishReason reason) {
  finish_ = reason;
  const std::string text = flush();
  if (!text.empty()) answer_text_.report({std::nullopt, text, nullptr});
}

// The text that was held back, which may complete a stop string.
std::string AutoregressiveGeneration::flush() {
  std::string text = answer_text_.flush();
  if (answer_text_.stopped()) finish_ = FinishReason::kStopString;
  return text;
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

Status step_together(qwen::Model& model, std::span<AutoregressiveGeneration* const> generations) {
  std::vector<AutoregressiveGeneration*> stepped, waiting;
  for (AutoregressiveGeneration* g : generations) {
    if (g->finished()) continue;
    if (g->callbacks_.cancel != nullptr && g->callbacks_.cancel->load()) {
      g->end(FinishReason::kCancelled);
      continue;
    }
    stepped.push_back(g);
    if (g->chooser_) {
      g->step_on_device();
    } else {
      waiting.push_back(g);
    }
  }
  while (!waiting.empty()) AutoregressiveGeneration::run_pass(model, waiting);
  for (const AutoregressiveGeneration* g : stepped) {
    if (g->error_) return *g->error_;
  }
  return Ok{};
}

}  // namespace weir
