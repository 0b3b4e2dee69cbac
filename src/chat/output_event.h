// What an output parser finds in the text that a model writes, in order.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/json_text.h"

namespace weir {

struct ReasoningDelta {
  std::string text;
  bool operator==(const ReasoningDelta&) const = default;
};

struct ContentDelta {
  std::string text;
  bool operator==(const ContentDelta&) const = default;
};

struct ToolCallBegun {
  int index = 0;  // 0 for the first call of the turn
  std::string name;
  bool operator==(const ToolCallBegun&) const = default;
};

// A piece of the arguments as JSON text. All pieces of a well-formed call are one object, equal to
// ToolCallFinished::arguments. Text arguments come as they are written, all others when they are complete.
struct ToolCallArguments {
  int index = 0;
  std::string text;
  bool operator==(const ToolCallArguments&) const = default;
};

struct ToolCallFinished {
  int index =
      0;  // -1 for a malformed call of which not even the name could be read: no ToolCallBegun preceded
  std::string name;
  Json arguments = Json::object();  // those read before the mistake, if malformed
  bool malformed = false;           // must not be executed; `raw` is then all that may be relied on
  // What the model wrote, from the opening marker to where the call was known to end: for Qwen behind
  // </function>, so without a closing </tool_call>; for Gemma behind <tool_call|>.
  std::string raw;
  bool operator==(const ToolCallFinished&) const = default;
};

using OutputEvent =
    std::variant<ReasoningDelta, ContentDelta, ToolCallBegun, ToolCallArguments, ToolCallFinished>;

// Adds a delta, as part of the last event where that is one of the same kind. Empty ones are left out.
template <class Delta>
void add_delta(std::vector<OutputEvent>& events, Delta delta) {
  if (delta.text.empty()) return;
  Delta* last = events.empty() ? nullptr : std::get_if<Delta>(&events.back());
  if (last != nullptr) {
    last->text += delta.text;
  } else {
    events.emplace_back(std::move(delta));
  }
}

}  // namespace weir
