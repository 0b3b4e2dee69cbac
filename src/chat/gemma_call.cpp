#include "chat/gemma_call.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"
#include "chat/gemma_markup.h"
#include "chat/python_strip.h"
#include "chat/valid_text.h"

namespace weir {
namespace {

using namespace gemma;  // NOLINT: this file reads that layout

constexpr std::string_view kCallWord = "call:";

// Each marker is a token of its own, so it is never part of a key or a value.
constexpr std::array<Tag, 8> kMarkers = {
    {{kQuote}, {kCallEnd}, {kCall}, {kChannel}, {kChannelEnd}, {kTurnEnd}, {kEnd}, {kResponse}}};

// Those that end a call, whatever it is like.
constexpr std::span<const Tag> kEnds = std::span<const Tag>(kMarkers).subspan(1);

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// The value that bare text stands for by itself: a number, a boolean or null, the latter also as Python
// spells them.
std::optional<Json> literal(std::string_view text) {
  if (equals_ignoring_case(text, "true")) return Json(true);
  if (equals_ignoring_case(text, "false")) return Json(false);
  if (equals_ignoring_case(text, "null") || equals_ignoring_case(text, "none")) return Json();
  if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) return std::nullopt;
  Result<Json> number = parse_json(text);
  if (!number.ok() || !number->is_number()) return std::nullopt;
  return *std::move(number);
}

}  // namespace

using Progress = GemmaCallParser::Progress;

void GemmaCallParser::begin(std::string_view opening, bool thinking) {
  raw_ = opening;
  thinking_ = thinking;
  state_ = State::kOpening;
  named_ = false;
  name_.clear();
  containers_.clear();
}

Progress GemmaCallParser::advance(TextBuffer& in, std::vector<OutputEvent>& out) {
  switch (state_) {
    case State::kOpening:
      return read_opening(in);
    case State::kName:
      return read_name(in, out);
    case State::kKeyStart:
      return read_key_start(in, out);
    case State::kKey:
      return read_key(in);
    case State::kQuotedKey:
      return read_quoted_key(in);
    case State::kColon:
      return read_colon(in, out);
    case State::kValue:
      return read_value(in, out);
    case State::kText:
      return read_text(in, out);
    case State::kBare:
      return read_bare(in, out);
    case State::kAfterValue:
      return read_after_value(in, out);
    case State::kAfterCall:
      return read_after_call(in, out);
    case State::kMalformed:
      return read_malformed(in, out);
  }
  return Progress::kNeedMore;
}

Progress GemmaCallParser::finish(TextBuffer& in, std::vector<OutputEvent>& out) {
  if (state_ == State::kOpening && thinking_) return Progress::kNotACall;
  take(in, in.rest().size());
  finish_call(state_ != State::kAfterCall, out);
  return Progress::kClosed;
}

Progress GemmaCallParser::read_opening(TextBuffer& in) {
  raw_ += in.take_space();
  if (in.rest().starts_with(kCallWord)) {
    take(in, kCallWord.size());
    token_.clear();
    return go_on(State::kName);
  }
  if (kCallWord.starts_with(in.rest())) return Progress::kNeedMore;
  return thinking_ ? Progress::kNotACall : go_on(State::kMalformed);
}

Progress GemmaCallParser::read_name(TextBuffer& in, std::vector<OutputEvent>& out) {
  const Stop stop = read_until(in, "{\n");
  if (stop == Stop::kNone) return Progress::kNeedMore;
  name_ = valid_text(python_strip(token_));
  if (stop == Stop::kMarker || in.rest()[0] != '{' || name_.empty()) return go_on(State::kMalformed);
  named_ = true;
  out.emplace_back(ToolCallBegun{begun_++, name_});
  return open_container(in, Json::object(), State::kKeyStart);
}

Progress GemmaCallParser::read_key_start(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  token_.clear();
  if (in.rest().starts_with(kQuote)) {
    take(in, kQuote.size());
    return go_on(State::kQuotedKey);
  }
  if (kQuote.starts_with(in.rest())) return Progress::kNeedMore;
  if (in.rest()[0] != '}') return go_on(State::kKey);
  return may_close_ ? close_container(in, out) : go_on(State::kMalformed);
}

Progress GemmaCallParser::read_key(TextBuffer& in) {
  const Stop stop = read_until(in, ":,{}[]\n");
  if (stop == Stop::kNone) return Progress::kNeedMore;
  const std::string_view key = python_strip(token_);
  if (stop == Stop::kMarker || in.rest()[0] != ':' || key.empty()) return go_on(State::kMalformed);
  containers_.back().key = valid_text(key);
  return go_on(State::kColon);
}

Progress GemmaCallParser::read_quoted_key(TextBuffer& in) {
  const TagMatch match = find_tag(in.rest(), kMarkers, true);
  token_ += take(in, match.before);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text != kQuote) return go_on(State::kMalformed);
  take(in, kQuote.size());
  containers_.back().key = valid_text(token_);
  return go_on(State::kColon);
}

Progress GemmaCallParser::read_colon(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  if (in.rest().empty()) return Progress::kNeedMore;
  if (in.rest()[0] != ':') return go_on(State::kMalformed);
  take(in, 1);
  may_close_ = false;
  if (at_argument()) {
    const Container& arguments = containers_.front();
    const char* separator = arguments.value.empty() ? "{\"" : ", \"";
    send_arguments(separator + json_escaped(arguments.key) + "\": ", out);
  }
  return go_on(State::kValue);
}

Progress GemmaCallParser::read_value(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  token_.clear();
  if (in.rest().starts_with(kQuote)) {
    take(in, kQuote.size());
    sent_ = 0;
    if (at_argument()) send_arguments("\"", out);
    return go_on(State::kText);
  }
  if (kQuote.starts_with(in.rest())) return Progress::kNeedMore;
  switch (in.rest()[0]) {
    case '{':
      return open_container(in, Json::object(), State::kKeyStart);
    case '[':
      return open_container(in, Json::array(), State::kValue);
    case ']':
      return may_close_ ? close_container(in, out) : go_on(State::kMalformed);
    default:
      return go_on(State::kBare);
  }
}

Progress GemmaCallParser::read_text(TextBuffer& in, std::vector<OutputEvent>& out) {
  const TagMatch match = find_tag(in.rest(), kMarkers, true);
  token_ += take(in, match.before);
  if (at_argument()) send_text(false, out);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text != kQuote) return go_on(State::kMalformed);
  take(in, kQuote.size());
  if (at_argument()) {
    send_text(true, out);
    send_arguments("\"", out);
  }
  add_value(valid_text(token_));
  return Progress::kStepped;
}

Progress GemmaCallParser::read_bare(TextBuffer& in, std::vector<OutputEvent>& out) {
  const Stop stop = read_until(in, ",}]");
  if (stop == Stop::kNone) return Progress::kNeedMore;
  if (stop == Stop::kMarker || python_strip(token_).empty()) return go_on(State::kMalformed);
  Json value = bare_value();
  if (at_argument()) send_arguments(python_json(value), out);
  add_value(std::move(value));
  return Progress::kStepped;
}

Progress GemmaCallParser::read_after_value(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  if (in.rest().empty()) return Progress::kNeedMore;
  const bool object = containers_.back().value.is_object();
  const char c = in.rest()[0];
  if (c == (object ? '}' : ']')) return close_container(in, out);
  if (c != ',') return go_on(State::kMalformed);
  take(in, 1);
  may_close_ = false;
  return go_on(object ? State::kKeyStart : State::kValue);
}

Progress GemmaCallParser::read_after_call(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  if (in.rest().empty()) return Progress::kNeedMore;
  const TagMatch match = find_tag(in.rest(), kEnds, true);
  if (match.before > 0) return go_on(State::kMalformed);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text == kCallEnd) take(in, kCallEnd.size());
  finish_call(false, out);
  return Progress::kClosed;
}

Progress GemmaCallParser::read_malformed(TextBuffer& in, std::vector<OutputEvent>& out) {
  const TagMatch match = find_tag(in.rest(), kEnds, true);
  take(in, match.before);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text == kCallEnd) take(in, kCallEnd.size());
  finish_call(true, out);
  return Progress::kClosed;
}

// Adds to token_ what comes before the first of `characters` (none of which is in a marker) or the first
// marker, and leaves that one where it is.
GemmaCallParser::Stop GemmaCallParser::read_until(TextBuffer& in, std::string_view characters) {
  const std::string_view head = in.rest().substr(0, in.rest().find_first_of(characters));
  const bool complete = head.size() < in.rest().size();
  const TagMatch match = find_tag(head, kMarkers, true);
  token_ += take(in, match.tag == nullptr && complete ? head.size() : match.before);
  if (match.tag != nullptr) return Stop::kMarker;
  return complete ? Stop::kCharacter : Stop::kNone;
}

Progress GemmaCallParser::go_on(State next) {
  state_ = next;
  return Progress::kStepped;
}

Progress GemmaCallParser::open_container(TextBuffer& in, Json empty, State next) {
  if (containers_.size() >= static_cast<size_t>(kMaxJsonDepth)) return go_on(State::kMalformed);
  take(in, 1);
  containers_.push_back({std::move(empty), {}});
  may_close_ = true;
  return go_on(next);
}

Progress GemmaCallParser::close_container(TextBuffer& in, std::vector<OutputEvent>& out) {
  take(in, 1);
  if (containers_.size() == 1) return go_on(State::kAfterCall);
  Json value = std::move(containers_.back().value);
  containers_.pop_back();
  if (at_argument()) send_arguments(python_json(value), out);
  add_value(std::move(value));
  return Progress::kStepped;
}

// Sends what is certain of the text of an argument: a character at its end may be incomplete.
void GemmaCallParser::send_text(bool complete, std::vector<OutputEvent>& out) {
  std::string_view ready = std::string_view(token_).substr(sent_);
  if (!complete) ready.remove_suffix(unfinished_utf8_suffix(ready));
  sent_ += ready.size();
  send_arguments(json_escaped(valid_text(ready)), out);
}

void GemmaCallParser::add_value(Json value) {
  Container& container = containers_.back();
  if (container.value.is_object()) {
    container.value[container.key] = std::move(value);
  } else {
    container.value.push_back(std::move(value));
  }
  state_ = State::kAfterValue;
}

// Bare text that is no literal lacks its quotes. So does a literal where the schema asks for text alone.
Json GemmaCallParser::bare_value() const {
  const std::string text = valid_text(python_strip(token_));
  const std::optional<Json> value = literal(text);
  if (!value) return text;
  if (!at_argument()) return *value;
  const ArgumentTypes types = argument_types(tools_, name_, containers_.front().key);
  return types.text && !admits(types, *value) ? Json(text) : *value;
}

void GemmaCallParser::send_arguments(std::string text, std::vector<OutputEvent>& out) const {
  add_delta(out, ToolCallArguments{begun_ - 1, std::move(text)});
}

void GemmaCallParser::finish_call(bool malformed, std::vector<OutputEvent>& out) {
  Json arguments = containers_.empty() ? Json::object() : std::move(containers_.front().value);
  if (!malformed) send_arguments(arguments.empty() ? "{}" : "}", out);
  out.emplace_back(
      ToolCallFinished{named_ ? begun_ - 1 : -1, name_, std::move(arguments), malformed, std::move(raw_)});
}

std::string_view GemmaCallParser::take(TextBuffer& in, size_t count) {
  const std::string_view taken = in.take(count);
  raw_ += taken;
  return taken;
}

}  // namespace weir
