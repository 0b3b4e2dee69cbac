// Reads one tool call of Gemma 4's output:
//
//   <|tool_call>call:NAME{key:<|"|>text<|"|>,other:[1,true,null,{a:2}]}<tool_call|>
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/call_progress.h"
#include "chat/message.h"
#include "chat/output_event.h"
#include "chat/tag_scan.h"
#include "chat/tool_schema.h"

namespace weir {

class GemmaCallParser {
 public:
  explicit GemmaCallParser(std::vector<Tool> tools) : tools_(std::move(tools)) {}

  using Progress = CallProgress;

  // Starts a call whose `opening` marker has just been consumed. Someone who thinks may mention the marker,
  // so while thinking what does not go on with "call:" is not a call; elsewhere it is a malformed one.
  void begin(std::string_view opening, bool thinking);

  Progress advance(TextBuffer& in, std::vector<OutputEvent>& out);

  // The text is over. Only a missing <tool_call|> is forgiven, since without its last brace a call is not
  // complete. Returns kClosed or kNotACall.
  Progress finish(TextBuffer& in, std::vector<OutputEvent>& out);

  const std::string& raw() const { return raw_; }

 private:
  enum class State {
    kOpening,    // "call:"
    kName,       // up to '{'
    kKeyStart,   // a key, or the end of an object without members
    kKey,        // up to ':'
    kQuotedKey,  // up to the quote
    kColon,
    kValue,  // its first character, or the end of a list without items
    kText,   // up to the quote
    kBare,   // up to what ends a value
    kAfterValue,
    kAfterCall,
    kMalformed
  };

  // An object or a list that is being read.
  struct Container {
    Json value;
    std::string key;  // of the member being read, if an object
  };

  // What stopped read_until: nothing yet, one of its characters, or a marker.
  enum class Stop { kNone, kCharacter, kMarker };

  Progress read_opening(TextBuffer& in);
  Progress read_name(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_key_start(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_key(TextBuffer& in);
  Progress read_quoted_key(TextBuffer& in);
  Progress read_colon(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_value(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_text(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_bare(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_after_value(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_after_call(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_malformed(TextBuffer& in, std::vector<OutputEvent>& out);

  Stop read_until(TextBuffer& in, std::string_view characters);
  Progress go_on(State next);
  Progress open_container(TextBuffer& in, Json empty, State next);
  Progress close_container(TextBuffer& in, std::vector<OutputEvent>& out);
  void send_text(bool complete, std::vector<OutputEvent>& out);
  void add_value(Json value);
  Json bare_value() const;
  void send_arguments(std::string text, std::vector<OutputEvent>& out) const;
  void finish_call(bool malformed, std::vector<OutputEvent>& out);
  std::string_view take(TextBuffer& in, size_t count);

  // The value being read is that of an argument, not part of one.
  bool at_argument() const { return containers_.size() == 1; }

  std::vector<Tool> tools_;
  int begun_ = 0;  // calls begun in the whole turn
  bool thinking_ = false;
  State state_ = State::kOpening;

  // The call being read.
  std::string raw_;
  bool named_ = false;  // ToolCallBegun was sent
  std::string name_;
  std::vector<Container> containers_;  // that enclose what is being read; the arguments are the outermost
  bool may_close_ = false;             // the innermost has nothing in it, not even a comma

  // The name, key, text or bare value being read.
  std::string token_;
  size_t sent_ = 0;  // bytes of a text that are out as JSON text
};

}  // namespace weir
