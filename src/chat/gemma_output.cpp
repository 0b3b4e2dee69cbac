#include "chat/gemma_output.h"

#include <array>

#include "chat/gemma_markup.h"

namespace weir {
namespace {

using namespace gemma;  // NOLINT: this file reads that layout

constexpr std::array<Tag, 6> kTextTags = {
    {{kChannel}, {kChannelEnd}, {kCall}, {kTurnEnd}, {kEnd}, {kResponse}}};

}  // namespace

std::vector<OutputEvent> GemmaOutputParser::feed(std::string_view text) {
  std::vector<OutputEvent> out;
  if (state_ == State::kEnded) return out;
  in_.append(text);
  while (step(out)) {
  }
  return out;
}

std::vector<OutputEvent> GemmaOutputParser::finish(bool) {
  std::vector<OutputEvent> out;
  if (state_ == State::kEnded) return out;
  if (state_ == State::kChannelName) in_.take(in_.rest().size());
  if (state_ == State::kCall) {
    if (call_.finish(in_, out) == GemmaCallParser::Progress::kNotACall) {
      text_.add(call_.raw(), out);
    } else {
      text_.start(text_.thinking());
    }
  }
  text_.add(in_.take(in_.rest().size()), out);
  text_.finish(out);
  return out;
}

// Consumes what can be decided now. Returns false when only more text helps, or none does.
bool GemmaOutputParser::step(std::vector<OutputEvent>& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kChannelName:
      return step_channel_name();
    case State::kCall:
      return step_call(out);
    case State::kEnded:
      return false;
  }
  return false;
}

bool GemmaOutputParser::step_text(std::vector<OutputEvent>& out) {
  const TagMatch match = find_tag(in_.rest(), kTextTags, true);
  text_.add(in_.take(match.before), out);
  if (match.tag == nullptr) return false;
  const std::string_view tag = in_.take(match.tag->text.size());
  if (tag == kChannel) {
    text_.start(true);
    state_ = State::kChannelName;
  } else if (tag == kChannelEnd) {
    text_.start(false);
  } else if (tag == kCall) {
    call_.begin(tag, text_.thinking());
    state_ = State::kCall;
  } else {
    text_.finish(out);
    state_ = State::kEnded;
  }
  return true;
}

// Drops "thought" where it is the whole first line of a channel.
bool GemmaOutputParser::step_channel_name() {
  const std::string_view rest = in_.rest();
  if (kThought.starts_with(rest)) return false;
  if (rest.starts_with(kThought) && (rest[kThought.size()] == '\n' || rest[kThought.size()] == '<')) {
    in_.take(kThought.size());
  }
  state_ = State::kText;
  return true;
}

bool GemmaOutputParser::step_call(std::vector<OutputEvent>& out) {
  switch (call_.advance(in_, out)) {
    case GemmaCallParser::Progress::kStepped:
      return true;
    case GemmaCallParser::Progress::kNeedMore:
      return false;
    case GemmaCallParser::Progress::kNotACall:
      text_.add(call_.raw(), out);
      break;
    case GemmaCallParser::Progress::kClosed:
      text_.start(text_.thinking());
      break;
  }
  state_ = State::kText;
  return true;
}

}  // namespace weir
