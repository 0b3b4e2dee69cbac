// Reads one <tool_call> block of Qwen3.6's output:
//
//   <tool_call>
//   <function=NAME>
//   <parameter=KEY>
//   VALUE
//   </parameter>
//   </function>
//   </tool_call>
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

class QwenCallParser {
 public:
  explicit QwenCallParser(std::vector<Tool> tools) : tools_(std::move(tools)) {}

  using Progress = CallProgress;

  // Starts a block whose `opening` tag has just been consumed. Someone who thinks may mention the tag, so
  // while thinking a block without <function= is not a call; elsewhere it is a malformed one.
  void begin(std::string_view opening, bool thinking);

  Progress advance(TextBuffer& in, std::vector<OutputEvent>& out);

  // The text is over. Whatever is still missing is forgiven unless `cut_off`, when the model had more to say.
  // Returns kClosed or kNotACall.
  Progress finish(TextBuffer& in, bool cut_off, std::vector<OutputEvent>& out);

  const std::string& raw() const { return raw_; }

 private:
  enum class State { kOpening, kName, kParameters, kKey, kValue, kBetweenCalls, kMalformed };

  Progress read_opening(TextBuffer& in);
  Progress read_name(TextBuffer& in, std::string& name, std::vector<OutputEvent>& out);
  Progress read_parameters(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_value(TextBuffer& in, std::vector<OutputEvent>& out);
  Progress read_between_calls(TextBuffer& in);
  Progress read_malformed(TextBuffer& in, std::vector<OutputEvent>& out);

  void start_call(std::vector<OutputEvent>& out);
  void start_value(std::vector<OutputEvent>& out);
  void add_to_value(std::string_view text, std::vector<OutputEvent>& out);
  void stream_value(bool complete, std::vector<OutputEvent>& out);
  void close_value(std::vector<OutputEvent>& out);
  void finish_call(bool malformed, std::vector<OutputEvent>& out);
  std::string_view take(TextBuffer& in, size_t count);

  // A value that is text whatever it says can be sent on as it arrives.
  bool streams() const { return types_.text && !types_.null; }

  std::vector<Tool> tools_;
  int begun_ = 0;  // calls begun in the whole turn
  bool thinking_ = false;
  State state_ = State::kOpening;

  // The call being read.
  std::string raw_;
  bool named_ = false;  // ToolCallBegun was sent
  std::string name_;
  Json arguments_;

  // The parameter being read.
  std::string key_;
  ArgumentTypes types_;
  std::string value_;        // without its first newline
  bool value_empty_ = true;  // nothing has arrived yet, not even that newline
  bool at_line_start_ = true;
  size_t streamed_ = 0;  // bytes of value_ that are out as JSON text
};

}  // namespace weir
