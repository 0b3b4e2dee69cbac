// weir run: one prompt, one answer.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/answer.h"
#include "cli/bandwidth.h"
#include "cli/draft_option.h"
#include "cli/exit_code.h"
#include "cli/form_options.h"
#include "cli/interrupt.h"
#include "cli/json_report.h"
#include "cli/options.h"
#include "cli/speed.h"
#include "cli/standard_input.h"
#include "cli/terminal.h"
#include "cli/turn_view.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

struct Options {
  std::string prompt;
  std::string system;
  ModelOptions model;
  BackendOptions backend;
  SamplingOptions sampling;
  DenoisingOptions denoising;
  FormOptions form;
  Draft draft = Draft::kOff;
  std::optional<bool> think;
  bool json = false;
  bool stats = false;
  std::string trace;
};

Report answer_json(const Answer& answer, const TurnOptions& turn, const Speed& speed) {
  return {{"answer", answer.content},
          {"thinking", answer.thinking},
          {"finish_reason", finish_reason_name(answer.finish)},
          {"seed", turn.sampling.seed},
          {"prompt_tokens", answer.statistics.prompt_tokens},
          {"generated_tokens", answer.statistics.generated_tokens},
          {"drafted_tokens", answer.statistics.drafted_tokens},
          {"accepted_tokens", answer.statistics.accepted_tokens},
          {"denoising_passes", answer.statistics.denoising_passes},
          {"canvases", answer.statistics.canvases},
          {"canvas_rows", answer.statistics.canvas_rows},
          {"speed", speed_json(speed)}};
}

Result<int> run(const Options& options) {
  WEIR_TRY(const std::string prompt, text_or_input(options.prompt));
  if (prompt.empty()) {
    return Error{Code::kInvalidArgument, "the prompt is empty",
                 "put the question behind `weir run`, or - to read it from stdin"};
  }
  WEIR_TRY(Engine engine, load_engine(options.model, options.backend,
                                      {.draft = options.draft, .timed = !options.trace.empty()}));
  WEIR_TRY(TurnOptions turn, turn_options(engine, options.sampling, options.denoising, options.think));
  WEIR_RETURN_IF_ERROR(options.form.over(engine, options.think, turn));
  WEIR_RETURN_IF_ERROR(use_draft(engine, options.draft, turn));

  const InterruptScope interrupt;
  WEIR_TRY(std::optional<CanvasTrace> trace, open_trace(options.trace, engine));
  TurnView view(*engine.tokenizer);
  TurnWriters writers = options.json ? TurnWriters{} : view.writers();
  writers.interrupted = &interrupt.interrupted();
  add_trace(writers, trace);
  HeldSequence held;
  WEIR_TRY(const Answer given, answer(engine, ask(options.system, prompt), turn, writers, held));
  if (!options.json) view.finish();
  explain_finish(given, turn, engine);
  if (trace) WEIR_RETURN_IF_ERROR(trace->finish());

  Bandwidth machine;
  if (options.stats) {
    WEIR_TRY(machine, measure_bandwidth(*engine.pool, kQuickPasses));
  }
  const Speed speed = speed_of(given.statistics, machine);
  if (options.stats) tell(fmt::format("{}", speed_text(speed, given.statistics)));
  const int written = options.json ? print_json(answer_json(given, turn, speed), false) : kDone;
  return given.finish == FinishReason::kCancelled ? kInterrupted : written;
}

}  // namespace

Verb add_run(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt");
  command->add_option("PROMPT", options->prompt, "The question; - reads it from stdin")->type_name("");
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  add_draft(*command, options->draft);
  add_think(*command, options->think, "Let the model think first, on stderr, or not");
  command->add_flag("--json", options->json, "One JSON object instead of streamed text");
  command->add_flag("--stats", options->stats,
                    "Measure the machine and show how fast the answer came, on stderr");
  command->add_option("--trace", options->trace, "Write each denoising step to FILE as a line of JSON")
      ->type_name("FILE");
  options->model.add(*command);
  options->sampling.add(*command);
  options->form.add(*command);
  options->denoising.add(*command);
  options->backend.add(*command);
  return {command, [options] {
            const auto code = run(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
