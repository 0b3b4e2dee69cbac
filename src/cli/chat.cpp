// weir chat: a conversation on the terminal or from a pipe.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/chat_session.h"
#include "cli/environment.h"
#include "cli/exit_code.h"
#include "cli/form_options.h"
#include "cli/line_reader.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

constexpr std::string_view kBlock = "\"\"\"";
constexpr const char* kPrompt = "> ";
constexpr const char* kContinuation = ". ";

struct Options {
  std::string system;
  ModelOptions model;
  BackendOptions backend;
  SamplingOptions sampling;
  DenoisingOptions denoising;
  FormOptions form;
  std::optional<bool> think;
  bool stats = false;
  std::string trace;
};

struct Input {
  std::string text;
  bool is_command = false;
};

// Reads on until a line ends the block. What else that line holds belongs to the message too.
std::string rest_of_block(LineReader& reader, std::string text) {
  while (text.find(kBlock) == std::string::npos) {
    const auto line = reader.read(kContinuation);
    if (!line) return text;
    text += (text.empty() ? "" : "\n") + *line;
  }
  return text.erase(text.find(kBlock), kBlock.size());
}

// One message or command: a line, lines joined by trailing backslashes, or a block.
std::optional<Input> read_input(LineReader& reader) {
  auto line = reader.read(kPrompt);
  if (!line) return std::nullopt;
  if (line->starts_with(kBlock)) return Input{rest_of_block(reader, line->substr(kBlock.size())), false};
  std::string text = std::move(*line);
  const bool is_command = text.starts_with('/');
  while (!is_command && text.ends_with('\\')) {
    text.back() = '\n';
    const auto next = reader.read(kContinuation);
    if (!next) break;
    text += *next;
  }
  return Input{std::move(text), is_command};
}

Result<ChatSession> start(const Options& options) {
  WEIR_TRY(Engine engine, load_engine(options.model, options.backend, {.timed = !options.trace.empty()}));
  WEIR_TRY(TurnOptions turn, turn_options(engine, options.sampling, options.denoising, options.think));
  WEIR_RETURN_IF_ERROR(options.form.over(engine, options.think, turn));
  std::optional<Bandwidth> machine;
  if (options.stats) {
    WEIR_TRY(machine, measure_bandwidth(*engine.pool, kQuickPasses));
  }
  WEIR_TRY(std::optional<CanvasTrace> trace, open_trace(options.trace, engine));
  return ChatSession(std::move(engine), std::move(turn), options.system, machine, std::move(trace));
}

int chat(const Options& options) {
  auto session = start(options);
  if (!session.ok()) return report(session.error());
  const std::string state = state_folder();
  LineReader reader(state.empty() ? "" : state + "/history");
  if (reader.on_terminal()) tell(fmt::format("{}; /help lists the commands\n", options.model.model));
  int code = kDone;
  while (const auto input = read_input(reader)) {
    if (input->is_command) {
      const auto going_on = session->command(input->text);
      if (!going_on.ok()) {
        code = report(going_on.error());
      } else if (!*going_on) {
        break;
      }
    } else if (!input->text.empty()) {
      const auto finish = session->say(input->text);
      if (!finish.ok()) code = report(finish.error());
      if (finish.ok() && *finish == FinishReason::kCancelled && !reader.on_terminal()) return kInterrupted;
    }
  }
  if (const Status traced = session->finish(); !traced.ok()) code = report(traced.error());
  return reader.on_terminal() ? kDone : code;  // a person has seen the message; a script needs the code
}

}  // namespace

Verb add_chat(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("chat", "Chat on the terminal, or with messages from a pipe, one a line");
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  add_think(*command, options->think, "Let the model think first, on stderr, or not");
  command->add_flag("--stats", options->stats,
                    "Measure the machine and show how fast each answer came, on stderr");
  command->add_option("--trace", options->trace, "Write each denoising step to FILE as a line of JSON")
      ->type_name("FILE");
  options->model.add(*command);
  options->sampling.add(*command);
  options->form.add(*command);
  options->denoising.add(*command);
  options->backend.add(*command);
  return {command, [options] { return chat(*options); }};
}

}  // namespace weir::cli
