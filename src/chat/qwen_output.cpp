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
    add_text(call_.raw(), out);
  } else if (in_call_) {
    fresh_ = true;
    held_newlines_ = 0;
  }
  add_text(in_.take(in_.rest().size()), out);
  add_delta_text(std::string(held_newlines_, '\n'), out);
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
      add_text(call_.raw(), out);
      break;
    case QwenCallParser::Progress::kClosed:
      fresh_ = true;
      held_newlines_ = 0;
      break;
  }
  in_call_ = false;
  return true;
}

bool QwenOutputParser::step_text(std::vector<OutputEvent>& out) {
  if (fresh_) {
    in_.take(std::min(in_.rest().find_first_not_of('\n'), in_.rest().size()));
    if (in_.rest().starts_with(kThink)) {
      in_.take(kThink.size());
      thinking_ = true;
      return true;
    }
    if (kThink.starts_with(in_.rest())) return false;
  }
  const std::span<const Tag> tags = thinking_ ? std::span<const Tag>(kThinkingTags) : kContentTags;
  const TagMatch match = find_tag(in_.rest(), tags, true);
  add_text(in_.take(match.before), out);
  if (match.tag == nullptr) return false;
  const std::string_view tag = in_.take(match.tag->text.size());
  if (tag == kCall) {
    call_.begin(tag, thinking_);
    in_call_ = true;
  } else {
    thinking_ = false;
    fresh_ = true;
    held_newlines_ = 0;
  }
  return true;
}

void QwenOutputParser::add_text(std::string_view text, std::vector<OutputEvent>& out) {
  const size_t end = text.find_last_not_of('\n') + 1;
  if (end == 0) {
    if (!fresh_) held_newlines_ += text.size();
    return;
  }
  const size_t begin = fresh_ ? text.find_first_not_of('\n') : 0;
  add_delta_text(std::string(held_newlines_, '\n').append(text.substr(begin, end - begin)), out);
  held_newlines_ = text.size() - end;
  fresh_ = false;
}

void QwenOutputParser::add_delta_text(std::string text, std::vector<OutputEvent>& out) const {
  if (thinking_) {
    add_delta(out, ReasoningDelta{std::move(text)});
  } else {
    add_delta(out, ContentDelta{std::move(text)});
  }
}

}  // namespace weir
