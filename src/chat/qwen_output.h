// Reads Qwen3.6's output while it is being written: thinking, content and tool calls.
//
// What is found does not depend on how the text is cut into pieces, as long as adjacent deltas are put
// together. Nothing is held back but what may still turn out to be a tag or the newlines around one.
#pragma once

#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/output_parser.h"
#include "chat/qwen_call.h"
#include "chat/tag_scan.h"
#include "chat/text_sections.h"

namespace weir {

struct QwenOutputOptions {
  bool thinking_open = true;  // the prompt ended inside <think>, as it does unless thinking is off
  std::vector<Tool> tools;    // their schemas type the arguments of calls
  bool formed = false;        // content is JSON that was enforced: tags in it are part of its strings
};

// The text must hold the markers that are not special tokens (<think>, </think>, <tool_call>, </tool_call>)
// and must end before <|im_end|>. Invalid UTF-8 passes through content and reasoning unchanged; in names and
// arguments each bad byte becomes U+FFFD.
//
// Newlines next to a tag are layout: those that start the content or the reasoning, and those before </think>
// and <tool_call>, are dropped. A <think> at the start of the content opens a think block; a </think> outside
// one is content. A call inside a think block is a call, and thinking goes on after it. Calls are read
// whether or not tools were given; `raw` of each lets a caller without tools show it as text.
class QwenOutputParser final : public OutputParser {
 public:
  explicit QwenOutputParser(QwenOutputOptions options)
      : call_(std::move(options.tools)), formed_(options.formed), text_(options.thinking_open) {}

  std::vector<OutputEvent> feed(std::string_view text) override;

  // A call that is still open is malformed if the text was cut off, since an argument may be incomplete.
  std::vector<OutputEvent> finish(bool cut_off) override;

 private:
  bool step(std::vector<OutputEvent>& out);
  bool step_call(std::vector<OutputEvent>& out);
  bool step_text(std::vector<OutputEvent>& out);
  bool step_formed(std::vector<OutputEvent>& out);
  void begin_call();

  TextBuffer in_;
  QwenCallParser call_;
  bool in_call_ = false;
  bool formed_;
  TextSections text_;  // parted by <think>, </think> and calls
};

}  // namespace weir
