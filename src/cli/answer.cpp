#include "cli/answer.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>
#include <variant>

#include "chat/answer_grammar.h"
#include "chat/prompt_tokens.h"
#include "cli/terminal.h"

namespace weir::cli {
namespace {

Result<GenerationRequest> request_of(const Engine& engine, const TurnOptions& options,
                                     std::vector<int32_t> prompt) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.end_tokens = engine.defaults.end_tokens;
  request.stop_strings = options.stop;
  request.sequence = options.sequence;
  request.draft = options.draft;
  request.denoising = options.denoising;
  request.grammar = options.grammar;
  if (options.think && options.think_budget) {
    WEIR_TRY(ThinkingEnd end, thinking_end(engine.layout, *engine.tokenizer));
    request.thinking = ThinkingLimit{*options.think_budget, std::move(end.text), std::move(end.tokens)};
  }
  return request;
}

}  // namespace

Result<TurnOptions> turn_options(const Engine& engine, const SamplingOptions& flags,
                                 const DenoisingOptions& denoising, std::optional<bool> think) {
  TurnOptions turn;
  WEIR_TRY(turn.sampling, flags.over(engine.defaults.sampling));
  turn.stop = flags.stop;
  turn.max_tokens = flags.max_tokens;
  turn.think = think.value_or(thinks_by_default(engine.layout));
  if (engine.generator->is_diffusion()) {
    if (flags.temperature) {
      return Error{Code::kInvalidArgument, "--temperature has no meaning for a diffusion model",
                   "its schedule is --t-max and --t-min"};
    }
    WEIR_TRY(turn.denoising, denoising.over(engine.defaults.denoising));
  } else if (const std::string flag = denoising.given(); !flag.empty()) {
    return Error{Code::kInvalidArgument, flag + " has no meaning for a model that does not denoise",
                 "it belongs to DiffusionGemma, such as -m pocket-gemma"};
  }
  return turn;
}

Status use_draft(const Engine& engine, Draft draft, TurnOptions& turn) {
  turn.draft = draft;
  if (draft == Draft::kOff || !engine.generator->is_diffusion()) return Ok{};
  return Error{Code::kInvalidArgument, "--draft has no meaning for a diffusion model",
               "it makes many tokens in a pass already"};
}

Status compile_form(const Engine& engine, TurnOptions& turn) {
  if (!turn.schema) return Ok{};
  AnswerForm form;
  form.schema = turn.schema;
  form.schema_name = "--json-schema";
  std::vector<std::string> notes;  // they are about tools
  WEIR_TRY(grammar::Grammar grammar, answer_grammar(engine.layout, form, turn.think, notes));
  const auto vocabulary = std::make_shared<const grammar::TokenTrie>(*engine.tokenizer);
  WEIR_TRY(turn.grammar, grammar::TokenGrammar::make(std::move(grammar), vocabulary));
  return Ok{};
}

Result<std::optional<CanvasTrace>> open_trace(const std::string& path, const Engine& engine) {
  std::optional<CanvasTrace> trace;
  if (path.empty()) return trace;
  if (!engine.generator->is_diffusion()) {
    return Error{Code::kInvalidArgument, "--trace has no meaning for a model that does not denoise",
                 "it records the denoising steps of DiffusionGemma, such as -m pocket-gemma"};
  }
  WEIR_TRY(trace, CanvasTrace::open(path, *engine.timed));
  return trace;
}

void add_trace(TurnWriters& writers, std::optional<CanvasTrace>& trace) {
  if (!trace) return;
  trace->begin_answer();
  writers.canvas = [show = writers.canvas, &trace](const CanvasFrame& frame) {
    if (show) show(frame);
    trace->add(frame);
  };
}

Message message(Role role, std::string text) {
  Message m;
  m.role = role;
  m.content = MessageContent(std::move(text));
  return m;
}

Message Answer::message() const {
  Message m = cli::message(Role::kAssistant, content);
  if (!thinking.empty()) m.reasoning = thinking;
  return m;
}

Conversation ask(const std::string& system, const std::string& prompt) {
  Conversation conversation;
  if (!system.empty()) conversation.messages.push_back(message(Role::kSystem, system));
  conversation.messages.push_back(message(Role::kUser, prompt));
  return conversation;
}

Result<std::unique_ptr<Turn>> Turn::start(Engine& engine, const Conversation& conversation,
                                          const TurnOptions& options, TurnWriters writers,
                                          HeldSequence&& held) {
  WEIR_TRY(const Prompt rendered,
           render_prompt(engine.layout, conversation, {.enable_thinking = options.think}));
  WEIR_TRY(std::vector<int32_t> prompt, prompt_tokens(rendered, *engine.tokenizer));
  WEIR_TRY(GenerationRequest request, request_of(engine, options, std::move(prompt)));
  std::unique_ptr<Turn> turn(new Turn(
      std::move(writers), make_output_parser(engine.layout, options.think, {}, options.schema.has_value())));
  GenerationCallbacks callbacks;
  callbacks.cancel = turn->writers_.interrupted;
  callbacks.canvas = turn->writers_.canvas;
  callbacks.piece = [t = turn.get()](const Piece& piece) { t->take(t->parser_->feed(piece.text)); };
  WEIR_TRY(turn->generation_, engine.generator->start(*engine.tokenizer, std::move(request),
                                                      std::move(callbacks), std::move(held)));
  return turn;
}

// Sorts what the output parser finds into thinking and content, and passes it on.
void Turn::take(const std::vector<OutputEvent>& events) {
  for (const OutputEvent& event : events) {
    if (const auto* thinking = std::get_if<ReasoningDelta>(&event)) {
      add(answer_.thinking, writers_.thinking, thinking->text);
    } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
      add(answer_.content, writers_.content, content->text);
    } else if (const auto* call = std::get_if<ToolCallFinished>(&event)) {
      add(answer_.content, writers_.content, call->raw);  // no tools here: a call is shown as it was written
    }
  }
}

void Turn::add(std::string& whole, const std::function<bool(std::string_view)>& writer,
               const std::string& text) {
  whole += text;
  if (writer && !text.empty() && !writer(text)) refused_ = true;
}

Answer Turn::finish() {
  answer_.finish = generation_->finished() ? generation_->finish_reason() : FinishReason::kCancelled;
  take(parser_->finish(answer_.finish != FinishReason::kStop));
  answer_.statistics = generation_->statistics();
  answer_.refused = refused_;
  return std::move(answer_);
}

Result<Answer> answer(Engine& engine, const Conversation& conversation, const TurnOptions& options,
                      const TurnWriters& writers, HeldSequence& held) {
  WEIR_TRY(const auto turn, Turn::start(engine, conversation, options, writers, std::exchange(held, {})));
  while (!turn->is_over()) WEIR_RETURN_IF_ERROR(turn->generation().step());
  Answer given = turn->finish();
  held = turn->release();
  if (given.refused) return Error{Code::kInternal, "the answer could not be written", ""};
  return given;
}

void explain_finish(const Answer& answer, const TurnOptions& options, const Engine& engine) {
  if (answer.finish == FinishReason::kLength) {
    tell(fmt::format("weir: the answer was cut after --max-tokens {}\n", options.max_tokens));
  } else if (answer.finish == FinishReason::kContext) {
    tell(fmt::format("weir: the answer was cut because the context of {} tokens is full\n",
                     engine.generator->context()));
  } else if (answer.finish == FinishReason::kRepetition) {
    tell("weir: the answer ends where --repeat-guard found one token over and over\n");
  }
}

}  // namespace weir::cli
