#include "cli/chat_session.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "cli/interrupt.h"
#include "cli/speed.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/transcript.h"
#include "cli/turn_view.h"

namespace weir::cli {
namespace {

constexpr const char* kHelp =
    "/think on|off   let the model think before it answers, or not\n"
    "/seed N         repeat answers from here on\n"
    "/system TEXT    set the system message; without TEXT remove it\n"
    "/reset          forget the conversation, keep the system message\n"
    "/save FILE      write the conversation as JSON\n"
    "/load FILE      go on with a saved conversation\n"
    "/help           this list\n"
    "/quit           leave, as Ctrl-D does\n"
    "A line that ends with \\ goes on in the next one; a message between two \"\"\" may have many lines.\n"
    "Ctrl-C stops an answer and keeps what is there.\n";

const std::vector<std::string>& command_names() {
  static const std::vector<std::string> names = {"/think", "/seed", "/system", "/reset",
                                                 "/save",  "/load", "/help",   "/quit"};
  return names;
}

Error invalid(std::string message, std::string hint) {
  return {Code::kInvalidArgument, std::move(message), std::move(hint)};
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Status needs_file(const std::string& command, const std::string& path) {
  if (path.empty()) return invalid(command + " needs a file name", "such as " + command + " talk.json");
  return Ok{};
}

}  // namespace

ChatSession::ChatSession(Engine engine, TurnOptions turn, const std::string& system,
                         std::optional<Bandwidth> machine, std::optional<CanvasTrace> trace)
    : engine_(std::move(engine)), turn_(std::move(turn)), machine_(machine), trace_(std::move(trace)) {
  set_system(system);
}

Result<FinishReason> ChatSession::say(const std::string& text) {
  conversation_.messages.push_back(message(Role::kUser, text));
  const InterruptScope interrupt;
  TurnView view(*engine_.tokenizer);
  TurnWriters writers = view.writers();
  writers.interrupted = &interrupt.interrupted();
  add_trace(writers, trace_);
  auto given = answer(engine_, conversation_, turn_, writers, held_);
  view.finish();
  if (!given.ok()) {
    conversation_.messages.pop_back();
    return std::move(given).error();
  }
  explain_finish(*given, turn_, engine_);
  if (machine_) {
    tell(fmt::format("{}", speed_text(speed_of(given->statistics, *machine_), given->statistics)));
  }
  conversation_.messages.push_back(given->message());
  return given->finish;
}

Result<bool> ChatSession::command(const std::string& line) {
  const size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : trimmed(line.substr(space));
  if (name == "/quit") return false;
  if (name == "/help") {
    tell(fmt::format("{}", kHelp));
  } else if (name == "/think") {
    WEIR_RETURN_IF_ERROR(set_thinking(argument));
  } else if (name == "/seed") {
    WEIR_TRY(turn_.sampling.seed, parse_seed(argument));
  } else if (name == "/system") {
    if (!is_valid_utf8(argument)) return invalid("the system message is not valid UTF-8", "");
    set_system(argument);
  } else if (name == "/reset") {
    reset();
  } else if (name == "/save") {
    WEIR_RETURN_IF_ERROR(needs_file(name, argument));
    WEIR_RETURN_IF_ERROR(save_transcript(conversation_, argument));
  } else if (name == "/load") {
    WEIR_RETURN_IF_ERROR(needs_file(name, argument));
    WEIR_RETURN_IF_ERROR(load(argument));
  } else {
    const std::string near = nearest(name, command_names());
    return invalid(fmt::format("no command {}", name),
                   near.empty() ? "/help lists them" : fmt::format("did you mean {}?", near));
  }
  return true;
}

Status ChatSession::set_thinking(const std::string& argument) {
  if (argument != "on" && argument != "off") {
    return invalid(fmt::format("/think is {} now", turn_.think ? "on" : "off"), "/think on or /think off");
  }
  turn_.think = argument == "on";
  return compile_form(engine_, turn_);
}

void ChatSession::set_system(const std::string& text) {
  std::vector<Message>& messages = conversation_.messages;
  if (!messages.empty() && messages.front().role == Role::kSystem) messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), message(Role::kSystem, text));
}

Status ChatSession::load(const std::string& path) {
  WEIR_TRY(Conversation loaded, load_transcript(path));
  // What the layout has no place for is said now, not with every turn from here on.
  Conversation with_question = loaded;
  with_question.messages.push_back(message(Role::kUser, "?"));
  WEIR_RETURN_IF_ERROR(render_prompt(engine_.layout, with_question, {.enable_thinking = turn_.think}));
  conversation_ = std::move(loaded);
  tell(fmt::format("{} messages\n", conversation_.messages.size()));
  return Ok{};
}

void ChatSession::reset() {
  std::vector<Message>& messages = conversation_.messages;
  const bool has_system = !messages.empty() && messages.front().role == Role::kSystem;
  messages.resize(has_system ? 1 : 0);
}

}  // namespace weir::cli
