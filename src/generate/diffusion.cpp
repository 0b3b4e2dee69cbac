#include "generate/diffusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "generate/pass_rows.h"

namespace weir {
namespace {

// Canvases of one answer have numbers below this; answers drawn with one seed follow each other in blocks of
// it.
constexpr uint32_t kCanvasesPerSequence = 4096;

// A NaN among a row's logits reaches its entropy.
bool all_finite(std::span<const Belief> beliefs) {
  return std::all_of(beliefs.begin(), beliefs.end(),
                     [](const Belief& b) { return std::isfinite(b.entropy); });
}

Error invalid(std::string message, std::string hint = "") {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint)};
}

// What belongs to token-by-token sampling and has no meaning for a canvas.
Status refuse_unsupported(const GenerationRequest& request) {
  const Sampling& s = request.sampling;
  const std::string hint = "leave it out; the denoising schedule decides how a canvas is sampled";
  if (request.top_logprobs) return invalid("logprobs are not available from a diffusion model", hint);
  if (has_penalties(s)) return invalid("penalties are not available from a diffusion model", hint);
  if (request.grammar) return invalid("a grammar cannot be enforced on a diffusion model", "");
  if (request.thinking) return invalid("the thinking of a diffusion model cannot be limited", "");
  if (!s.logit_bias.empty()) return invalid("logit_bias is not available from a diffusion model", hint);
  if (s.top_k > 0 || s.top_p < 1 || s.min_p > 0) {
    return invalid("top_k, top_p and min_p are not available from a diffusion model", hint);
  }
  return Ok{};
}

Status check_room(const GenerationRequest& request, const diffusion_gemma::Config& config) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t canvas = config.canvas, context = request.context > 0 ? request.context : config.context;
  if (prompt + canvas <= context) return Ok{};
  return Error{
      Code::kTooLong,
      fmt::format(
          "the prompt has {} tokens, and a canvas of {} does not fit behind it into the context of {}",
          prompt, canvas, context),
      "shorten the prompt"};
}

size_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

bool is_end(const GenerationRequest& request, int32_t token) {
  const auto& ends = request.end_tokens;
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Status DiffusionGeneration::check(const diffusion_gemma::Model& model, const GenerationRequest& request) {
  const diffusion_gemma::Config& config = model.config();
  WEIR_RETURN_IF_ERROR(validate(request, {config.vocabulary, config.context, model.max_rows()}));
  WEIR_RETURN_IF_ERROR(refuse_unsupported(request));
  WEIR_RETURN_IF_ERROR(validate(request.denoising.value_or(Denoising{})));
  return check_room(request, config);
}

Result<std::unique_ptr<DiffusionGeneration>> DiffusionGeneration::start(diffusion_gemma::Model& model,
                                                                        const Tokenizer& tokenizer,
                                                                        GenerationRequest request,
                                                                        GenerationCallbacks callbacks,
                                                                        HeldSequence&& held) {
  const diffusion_gemma::Config& config = model.config();
  WEIR_CHECK(held.state.position == static_cast<int64_t>(held.tokens.size()));
  WEIR_RETURN_IF_ERROR(check(model, request));
  if (request.context == 0) request.context = config.context;
  if (request.chunk == 0) request.chunk = model.max_rows();
  HeldSequence sequence = std::exchange(held, {});
  const auto common = static_cast<int64_t>(common_prefix(sequence.tokens, request.prompt));
  if (common == 0 || !model.cut(sequence.state, common)) {
    WEIR_TRY(sequence.state, model.new_sequence());
  }
  std::unique_ptr<DiffusionGeneration> generation(new DiffusionGeneration(
      model, tokenizer, std::move(request), std::move(callbacks), std::move(sequence.state)));
  WEIR_TRY(generation->canvas_state_, model.new_canvas());
  return generation;
}

DiffusionGeneration::DiffusionGeneration(diffusion_gemma::Model& model, const Tokenizer& tokenizer,
                                         GenerationRequest request, GenerationCallbacks callbacks,
                                         SequenceState state)
    : model_(model),
      request_(std::move(request)),
      denoising_(request_.denoising.value_or(Denoising{})),
      callbacks_(std::move(callbacks)),
      prompt_tokens_(request_.prompt.size()),
      tokens_(std::move(request_.prompt)),
      state_(std::move(state)),
      answer_text_(tokenizer, SpecialTokens::kKeep, request_.stop_strings, callbacks_.piece),
      started_(Clock::now()) {
  statistics_.prompt_tokens = static_cast<int64_t>(prompt_tokens_);
  statistics_.reused_tokens = state_.position;
  make_draws_ = [this](int64_t canvas) {
    const uint32_t number = request_.sequence * kCanvasesPerSequence + static_cast<uint32_t>(canvas);
    return std::make_unique<CanvasDraws>(request_.sampling.seed, number, model_.config().vocabulary);
  };
}

Result<bool> DiffusionGeneration::step() {
  DiffusionGeneration* self = this;
  WEIR_RETURN_IF_ERROR(step_together(model_, {&self, 1}));
  return finished();
}

// Tokens that the sequence does not hold yet.
std::span<const int32_t> DiffusionGeneration::pending() const {
  if (!draft_.empty()) return draft_;
  return std::span(tokens_).subspan(static_cast<size_t>(state_.position));
}

// Rows of the next pass when it may have `most`.
int64_t DiffusionGeneration::rows_wanted(int64_t most) const {
  const auto causal = static_cast<int64_t>(pending().size());
  if (!draft_.empty()) return causal;
  const int64_t fed = request_.tokens_to_checkpoint(state_.position, causal);
  if (fed < causal) return std::min(fed, most);
  const int64_t canvas = canvas_ ? static_cast<int64_t>(canvas_->slots().size()) : model_.config().canvas;
  return causal + canvas <= most ? causal + canvas : std::min(causal, most);
}

void DiffusionGeneration::add_causal(PassRows& pass, int64_t most) {
  const std::span<const int32_t> tokens = pending();
  const int64_t rows = rows_wanted(most);
  causal_rows_ = std::min(static_cast<int64_t>(tokens.size()), rows);
  canvas_rows_ = rows - causal_rows_;
  first_inquiry_ = pass.inquiries();
  if (causal_rows_ > 0) {
    pass.add_causal(state_, tokens.first(static_cast<size_t>(causal_rows_)), !draft_.empty());
  }
  inquiries_ = pass.inquiries() - first_inquiry_;
}

void DiffusionGeneration::add_canvas(PassRows& pass) {
  if (canvas_rows_ == 0) return;
  if (!canvas_) {
    canvas_.emplace(denoising_, model_.config().canvas, request_.end_tokens,
                    make_draws_(statistics_.canvases));
    model_.clear(*canvas_state_);
    ++statistics_.canvases;
  }
  first_inquiry_ = pass.inquiries();
  pass.add_canvas(state_, *canvas_state_, *canvas_, static_cast<int64_t>(tokens_.size()));
  inquiries_ = pass.inquiries() - first_inquiry_;
}

void DiffusionGeneration::absorb(std::span<const Belief> beliefs, double seconds, int64_t rows) {
  account(seconds, rows);
  const auto own = beliefs.subspan(first_inquiry_, inquiries_);
  if (!all_finite(own)) {
    return fail({Code::kInternal, "the model produced a logit that is NaN or infinite",
                 "the checkpoint or the kernel in use may be faulty; compare with the reference kernels"});
  }
  if (!draft_.empty()) return take_check(own);
  if (canvas_rows_ == 0) return;
  canvas_->absorb(own);
  show(seconds);
  if (!canvas_->done()) return;
  if (denoising_.causal_check) {
    begin_check();
  } else {
    commit();
  }
}

// The last committed token is read again, as what follows it is the canvas's first token.
void DiffusionGeneration::begin_check() {
  const auto answer = canvas_->best().first(static_cast<size_t>(canvas_->answer_length()));
  draft_.assign(1, tokens_.back());
  draft_.insert(draft_.end(), answer.begin(), answer.end() - 1);
  WEIR_CHECK(model_.cut(state_, static_cast<int64_t>(tokens_.size()) - 1));
}

// beliefs[i] is about position i of the canvas.
void DiffusionGeneration::take_check(std::span<const Belief> beliefs) {
  draft_.clear();
  const std::span<const int32_t> block = canvas_->best();
  for (size_t i = 0; i < beliefs.size(); ++i) {
    const Belief& b = beliefs[i];
    if (b.best == block[i] || b.best_probability < denoising_.causal_check->sure) continue;
    WEIR_CHECK(model_.cut(state_, static_cast<int64_t>(tokens_.size())));
    canvas_->settle(static_cast<int64_t>(i), b.best);
    model_.clear(*canvas_state_);
    if (canvas_->done()) commit();
    return;
  }
  commit();
}

// A pass's time and the weights that it read are shared out over its rows.
void DiffusionGeneration::account(double seconds, int64_t rows) {
  const double seconds_per_row = seconds / static_cast<double>(rows);
  const bool in_prompt = draft_.empty() && state_.position <= static_cast<int64_t>(prompt_tokens_);
  (in_prompt ? statistics_.prefill_seconds : statistics_.decode_seconds) +=
      seconds_per_row * static_cast<double>(causal_rows_);
  statistics_.decode_seconds += seconds_per_row * static_cast<double>(canvas_rows_);
  const int64_t checked_rows = draft_.empty() ? 0 : causal_rows_;
  statistics_.denoising_passes += canvas_rows_ + checked_rows > 0 ? 1 : 0;
  statistics_.canvas_rows += canvas_rows_ + checked_rows;
  statistics_.bytes_moved += model_.bytes_per_pass() * static_cast<uint64_t>(canvas_rows_ + checked_rows) /
                             static_cast<uint64_t>(rows);
  if (in_prompt && causal_rows_ > 0 && callbacks_.prompt) {
    callbacks_.prompt(static_cast<uint64_t>(state_.position), prompt_tokens_);
  }
  if (in_prompt && causal_rows_ > 0 && callbacks_.checkpoint && request_.is_checkpoint(state_.position)) {
    callbacks_.checkpoint(state_);
  }
}

void DiffusionGeneration::show(double seconds) {
  if (!callbacks_.canvas) return;
  CanvasFrame frame = canvas_->frame();
  frame.canvas = statistics_.canvases - 1;
  frame.rows = canvas_rows_;
  frame.seconds = seconds;
  callbacks_.canvas(frame);
}

// The canvas's text joins the answer, up to the token that ends it.
void DiffusionGeneration::commit() {
  const std::vector<int32_t> block(canvas_->best().begin(), canvas_->best().end());
  canvas_.reset();
  if (statistics_.first_token_seconds == 0) statistics_.first_token_seconds = seconds_since(started_);
  for (size_t i = 0; i < block.size() && !finished(); ++i) {
    ++statistics_.generated_tokens;
    if (is_end(request_, block[i])) return end(FinishReason::kStop);
    if (repeats(block, i)) return end(FinishReason::kRepetition);
    accept(block[i]);
  }
  if (finished()) return;
  if (static_cast<int64_t>(tokens_.size()) + model_.config().canvas > request_.context) {
    end(FinishReason::kContext);
  }
}

void DiffusionGeneration::accept(int32_t token) {
  tokens_.push_back(token);
  const std::string text = answer_text_.push(token);
  answer_text_.report({token, text, nullptr});
  if (answer_text_.stopped()) {
    end(FinishReason::kStopString);
  } else if (static_cast<int64_t>(tokens_.size() - prompt_tokens_) == request_.max_tokens) {
    end(FinishReason::kLength);
  }
}

// True when block[i] completes a run of the guard's length.
bool DiffusionGeneration::repeats(std::span<const int32_t> block, size_t i) const {
  const auto length = static_cast<size_t>(denoising_.repeat_guard);
  if (length == 0 || i + 1 < length) return false;
  const auto run = block.subspan(i + 1 - length, length);
  return std::all_of(run.begin(), run.end(), [&](int32_t token) { return token == run.front(); });
}

void DiffusionGeneration::end(FinishReason reason) {
  finish_ = reason;
  const std::string text = answer_text_.flush();
  if (answer_text_.stopped()) finish_ = FinishReason::kStopString;
  if (!text.empty()) answer_text_.report({std::nullopt, text, nullptr});
  // A checked canvas has been read to its end; the answer may have ended before.
  const auto kept = static_cast<int64_t>(tokens_.size());
  if (state_.position > kept) WEIR_CHECK(model_.cut(state_, kept));
}

void DiffusionGeneration::fail(Error error) {
  error_ = std::move(error);
  state_ = {};
  finish_ = FinishReason::kError;
}

HeldSequence DiffusionGeneration::release() {
  if (!finished()) finish_ = FinishReason::kCancelled;
  HeldSequence held;
  held.tokens.assign(tokens_.begin(), tokens_.begin() + state_.position);
  held.state = std::exchange(state_, {});
  return held;
}

Status step_together(diffusion_gemma::Model& model, std::span<DiffusionGeneration* const> generations) {
  std::vector<DiffusionGeneration*> waiting;
  for (DiffusionGeneration* g : generations) {
    if (g->finished()) continue;
    const bool cancelled = g->callbacks_.cancel != nullptr && g->callbacks_.cancel->load();
    if (cancelled) {
      g->end(FinishReason::kCancelled);
    } else {
      waiting.push_back(g);
    }
  }
  while (!waiting.empty()) WEIR_RETURN_IF_ERROR(DiffusionGeneration::run_pass(model, waiting));
  return Ok{};
}

// One pass with as many of the waiting generations as fit, in order; they no longer wait.
Status DiffusionGeneration::run_pass(diffusion_gemma::Model& model,
                                     std::vector<DiffusionGeneration*>& waiting) {
  std::vector<DiffusionGeneration*> taken, left;
  PassRows pass;
  int64_t room = model.max_rows();
  for (DiffusionGeneration* g : waiting) {
    const int64_t most = std::max(g->request_.chunk, model.config().canvas);
    if (!taken.empty() && g->rows_wanted(most) > room) {
      left.push_back(g);
      continue;
    }
    g->add_causal(pass, most);
    room -= g->causal_rows_ + g->canvas_rows_;
    taken.push_back(g);
  }
  for (DiffusionGeneration* g : taken) g->add_canvas(pass);
  waiting = std::move(left);

  const auto begin = Clock::now();
  auto beliefs = model.run(pass.batch());
  if (!beliefs.ok() && beliefs.error().code == Code::kOutOfMemory && taken.size() > 1) {
    // Nothing has passed through the model yet, and not all of them lack memory.
    waiting.insert(waiting.begin(), taken.begin() + 1, taken.end());
    std::vector<DiffusionGeneration*> first{taken.front()};
    return run_pass(model, first);
  }
  if (!beliefs.ok()) {
    for (DiffusionGeneration* g : taken) g->fail(beliefs.error());
    return std::move(beliefs).error();
  }
  const double seconds = seconds_since(begin);
  for (DiffusionGeneration* g : taken) g->absorb(*beliefs, seconds, pass.rows());
  for (const DiffusionGeneration* g : taken) {
    if (g->error_) return *g->error_;
  }
  return Ok{};
}

}  // namespace weir
