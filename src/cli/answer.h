// One turn of a conversation: from messages to the model's answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/json_text.h"
#include "chat/message.h"
#include "chat/output_parser.h"
#include "cli/canvas_trace.h"
#include "cli/denoising_options.h"
#include "cli/engine.h"
#include "cli/options.h"
#include "generate/draft.h"
#include "generate/generation.h"
#include "generate/sampling.h"
#include "grammar/token_matcher.h"

namespace weir::cli {

struct TurnOptions {
  Sampling sampling;
  std::vector<std::string> stop;
  int64_t max_tokens = 0;  // 0: until the context is full
  bool think = true;
  std::optional<int64_t> think_budget;  // most tokens of thinking, at least 1; unset: no limit
  std::optional<Json> schema;           // that the content satisfies; unset: it is free
  std::shared_ptr<const grammar::TokenGrammar> grammar;  // of the schema; see compile_form
  Draft draft = Draft::kOff;
  uint32_t sequence = 0;               // tells apart answers drawn with one seed
  std::optional<Denoising> denoising;  // set for a diffusion model
};

// What the flags and, for those not given, the model's defaults ask for. Error: kInvalidArgument, also for a
// flag that means nothing to the model.
Result<TurnOptions> turn_options(const Engine& engine, const SamplingOptions& flags,
                                 const DenoisingOptions& denoising, std::optional<bool> think);

// Has the turn draft. Error: kInvalidArgument for a diffusion model, which has no use for it.
Status use_draft(const Engine& engine, Draft draft, TurnOptions& turn);

// Makes the grammar of the turn's schema, if it has one, for answers that begin with thinking or without, as
// the turn has it now. The engine must outlive it. Errors: those of answer_grammar and TokenGrammar::make.
Status compile_form(const Engine& engine, TurnOptions& turn);

// Called with pieces of text as they are generated. A writer returns false to stop.
struct TurnWriters {
  std::function<bool(std::string_view)> thinking;
  std::function<bool(std::string_view)> content;
  std::function<void(const CanvasFrame&)> canvas;
  const std::atomic<bool>* interrupted = nullptr;
};

struct Answer {
  std::string thinking;
  std::string content;
  FinishReason finish = FinishReason::kStop;
  GenerationStatistics statistics;
  bool refused = false;  // a writer wanted no more

  Message message() const;  // for the next turn
};

// A turn while the answer is being made. Several may take their steps together (Generator::step).
class Turn {
 public:
  // Errors: those of the layout, the tokenizer and Generator::start. `engine` must outlive the turn.
  static Result<std::unique_ptr<Turn>> start(Engine& engine, const Conversation& conversation,
                                             const TurnOptions& options, TurnWriters writers,
                                             HeldSequence&& held);

  Generation& generation() { return *generation_; }
  bool is_over() const { return refused_ || generation_->finished(); }  // ended, or a writer wants no more

  // What there is of the answer; call it once, at the end.
  Answer finish();

  // The model's state, for the next turn.
  HeldSequence release() { return generation_->release(); }

 private:
  Turn(TurnWriters writers, std::unique_ptr<OutputParser> parser)
      : writers_(std::move(writers)), parser_(std::move(parser)) {}

  void take(const std::vector<OutputEvent>& events);
  void add(std::string& whole, const std::function<bool(std::string_view)>& writer, const std::string& text);

  TurnWriters writers_;
  std::unique_ptr<OutputParser> parser_;
  Answer answer_;
  bool refused_ = false;
  std::unique_ptr<Generation> generation_;
};

// `held` carries the model's state from turn to turn: whatever the new prompt continues is not computed
// again.
Result<Answer> answer(Engine& engine, const Conversation& conversation, const TurnOptions& options,
                      const TurnWriters& writers, HeldSequence& held);

// Opens the trace that --trace asks for; none when `path` is empty. Error: kInvalidArgument when the model
// does not denoise, and those of CanvasTrace::open. The engine was loaded with timed steps.
Result<std::optional<CanvasTrace>> open_trace(const std::string& path, const Engine& engine);

// Has the writers feed the trace too, which must outlive them.
void add_trace(TurnWriters& writers, std::optional<CanvasTrace>& trace);

// A conversation of a system message, if not empty, and a user message.
Conversation ask(const std::string& system, const std::string& prompt);
Message message(Role role, std::string text);

// Says on stderr what ended the answer before its time, if anything did.
void explain_finish(const Answer& answer, const TurnOptions& options, const Engine& engine);

}  // namespace weir::cli
