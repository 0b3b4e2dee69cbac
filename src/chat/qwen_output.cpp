#include "chat/qwen_output.h"

#include <algorithm>
#include <array>

namespace weir {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";

constexpr std::array<Tag, 1> kContentTags = {{{kCall}}};
constexpr std::array<Tag, 2> kThinkingTags = {{{kCall}, {kThinkEnd}}};

}  // namespace

std::vector<OutputEvent> QwenOutputParser::feed(std::string_view text) {
  std::vector<OutputEvent> out;
  in_.append(text);
  while (step(out)) {
  }
  return out;
}

std::vector<OutputEvent> QwenOutputParser::finish(bool cut_off) {
  std::vector<OutputEvent> out;
  if (in_call_ && call_.finish(in_, cut_off, out) == QwenCallParser::Progress::kNotACall) {
    text_.add(call_.raw(), out);
  } else if (in_call_) {
    text_.start(text_.thinking());
  }
  text_.add(in_.take(in_.rest().size()), out);
  text_.finish(out);
  return out;
}

// Consumes what can be decided now. Returns false when only more text helps.
bool QwenOutputParser::step(std::vector<OutputEvent>& out) {
  return in_call_ ? step_call(out) : step_text(out);
}

bool QwenOutputParser::step_call(std::vector<OutputEvent>& out) {
  switch (call_.advance(in_, out)) {
    case QwenCallParser::Progress::kStepped:
      return true;
    case QwenCallParser::Progress::kNeedMore:
      return false;
    case QwenCallParser::Progress::kNotACall:
      text_.add(call_.raw(), out);
      break;
    case QwenCallParser::Progress::kClosed:
      text_.start(text_.thinking());
      break;
  }
  in_call_ = false;
  return true;
}

bool QwenOutputParser::step_text(std::vector<OutputEvent>& out) {
  if (text_.fresh()) {
    in_.take(std::min(in_.rest().find_first_not_of('\n'), in_.rest().size()));
    if (in_.rest().starts_with(kThink)) {
      in_.take(kThink.size());
      text_.start(true);
      return true;
    }
    if (kThink.starts_with(in_.rest())) return false;
  }
  if (formed_ && !text_.thinking()) return step_formed(out);
  const std::span<const Tag> tags = text_.thinking() ? std::span<const Tag>(kThinkingTags) : kContentTags;
  const TagMatch match = find_tag(in_.rest(), tags, true);
  text_.add(in_.take(match.before), out);
  if (match.tag == nullptr) return false;
  if (match.tag->text == kCall) {
    begin_call();
  } else {
    in_.take(match.tag->text.size());
    text_.start(false);
  }
  return true;
}

// A call may stand in place of the content, but not within.
bool QwenOutputParser::step_formed(std::vector<OutputEvent>& out) {
  if (text_.fresh() && in_.rest().starts_with(kCall)) {
    begin_call();
    return true;
  }
  const bool undecided = text_.fresh() && kCall.starts_with(in_.rest());
  if (!undecided) text_.add(in_.take(in_.rest().size()), out);
  return false;
}

void QwenOutputParser::begin_call() {
  call_.begin(in_.take(kCall.size()), text_.thinking());
  in_call_ = true;
}

}  // namespace weir
