// A chat: the conversation so far, how the next answer is made, and the commands that change either.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/answer.h"
#include "cli/bandwidth.h"
#include "cli/engine.h"

namespace weir::cli {

class ChatSession {
 public:
  // With the machine's bandwidth the speed of each answer is shown as a share of it.
  ChatSession(Engine engine, TurnOptions turn, const std::string& system, std::optional<Bandwidth> machine,
              std::optional<CanvasTrace> trace);

  // Answers on stdout. An answer that Ctrl-C cut short stays in the conversation; after an error the message
  // is taken back.
  Result<FinishReason> say(const std::string& text);

  // Error: kInternal when the trace could not be written.
  Status finish() { return trace_ ? trace_->finish() : Status(); }

  // A line that begins with '/'. Returns false when the chat is over.
  Result<bool> command(const std::string& line);

 private:
  Status set_thinking(const std::string& argument);
  void set_system(const std::string& text);
  Status load(const std::string& path);
  void reset();

  Engine engine_;
  TurnOptions turn_;
  Conversation conversation_;
  HeldSequence held_;
  std::optional<Bandwidth> machine_;
  std::optional<CanvasTrace> trace_;
};

}  // namespace weir::cli
