// Reads the output of Gemma 4 and DiffusionGemma while it is being written: thinking, content and tool calls.
//
// Nothing is held back but what may still turn out to be a marker or the newlines around one.
#pragma once

#include <string_view>
#include <vector>

#include "chat/gemma_call.h"
#include "chat/message.h"
#include "chat/output_parser.h"
#include "chat/tag_scan.h"
#include "chat/text_sections.h"

namespace weir {

// The text must hold the special tokens; it may come at once or in pieces. It should end before the end
// token, but <turn|>, <eos> and <|tool_response> end the turn wherever they are: what follows is ignored.
// Invalid UTF-8 passes through content and reasoning unchanged; in names and arguments each bad byte becomes
// U+FFFD.
//
// Thinking is what the channels hold, however they are called; the name "thought" is layout, and so are the
// newlines next to a marker. A <channel|> outside a channel says nothing. A call inside a channel is a call,
// and thinking goes on after it. Calls are read whether or not tools were given; `raw` of each lets a caller
// without tools show it as text.
class GemmaOutputParser final : public OutputParser {
 public:
  // The schemas of `tools` tell numbers from text where a call left out the quotes.
  explicit GemmaOutputParser(std::vector<Tool> tools) : call_(std::move(tools)) {}

  std::vector<OutputEvent> feed(std::string_view text) override;

  // A call whose braces are not all closed is malformed, cut off or not.
  std::vector<OutputEvent> finish(bool cut_off) override;

 private:
  enum class State { kText, kChannelName, kCall, kEnded };

  bool step(std::vector<OutputEvent>& out);
  bool step_text(std::vector<OutputEvent>& out);
  bool step_channel_name();
  bool step_call(std::vector<OutputEvent>& out);

  TextBuffer in_;
  GemmaCallParser call_;
  State state_ = State::kText;
  TextSections text_{false};  // parted by the ends of channels and by calls
};

}  // namespace weir
