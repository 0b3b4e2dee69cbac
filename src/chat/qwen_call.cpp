#include "chat/qwen_call.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/valid_text.h"

namespace weir {
namespace {

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";

constexpr std::array<Tag, 4> kBodyTags = {{{kParameter}, {kFunctionEnd}, {kCallEnd}, {kCall}}};

// What ends a value. </tool_call> is a token of its own, so it is never part of a value; a tag that makes up
// for a missing </parameter> counts only where the layout puts it, at the start of a line.
constexpr std::array<Tag, 4> kValueTags = {
    {{kParameterEnd}, {kCallEnd}, {kParameter, true}, {kFunctionEnd, true}}};

constexpr std::array<Tag, 2> kMalformedTags = {{{kCallEnd}, {kCall}}};
constexpr std::array<Tag, 3> kMalformedThinkingTags = {{{kCallEnd}, {kCall}, {"</think>"}}};

}  // namespace

using Progress = QwenCallParser::Progress;

void QwenCallParser::begin(std::string_view opening, bool thinking) {
  raw_ = opening;
  thinking_ = thinking;
  state_ = State::kOpening;
  named_ = false;
  name_.clear();
  arguments_ = Json::object();
}

Progress QwenCallParser::advance(TextBuffer& in, std::vector<OutputEvent>& out) {
  switch (state_) {
    case State::kOpening:
      return read_opening(in);
    case State::kName:
      return read_name(in, name_, out);
    case State::kParameters:
      return read_parameters(in, out);
    case State::kKey:
      return read_name(in, key_, out);
    case State::kValue:
      return read_value(in, out);
    case State::kBetweenCalls:
      return read_between_calls(in);
    case State::kMalformed:
      return read_malformed(in, out);
  }
  return Progress::kNeedMore;
}

Progress QwenCallParser::finish(TextBuffer& in, bool cut_off, std::vector<OutputEvent>& out) {
  if (state_ == State::kBetweenCalls) return Progress::kClosed;
  if (state_ == State::kOpening && thinking_) return Progress::kNotACall;
  bool malformed = cut_off;
  if (state_ == State::kValue) {
    add_to_value(take(in, in.rest().size()), out);
    if (!cut_off) close_value(out);
  } else if (state_ != State::kParameters || !in.rest().empty()) {
    take(in, in.rest().size());
    malformed = true;
  }
  finish_call(malformed, out);
  return Progress::kClosed;
}

Progress QwenCallParser::read_opening(TextBuffer& in) {
  raw_ += in.take_space();
  if (in.rest().starts_with(kFunction)) {
    take(in, kFunction.size());
    state_ = State::kName;
    return Progress::kStepped;
  }
  if (kFunction.starts_with(in.rest())) return Progress::kNeedMore;
  if (thinking_) return Progress::kNotACall;
  state_ = State::kMalformed;
  return Progress::kStepped;
}

// The name of a function or a parameter, up to '>'.
Progress QwenCallParser::read_name(TextBuffer& in, std::string& name, std::vector<OutputEvent>& out) {
  const size_t end = std::min(in.rest().find_first_of(">\n<"), in.rest().size());
  name += take(in, end);
  if (in.rest().empty()) return Progress::kNeedMore;
  if (in.rest()[0] != '>' || name.empty()) {
    state_ = State::kMalformed;
    return Progress::kStepped;
  }
  take(in, 1);
  name = valid_text(name);
  if (state_ == State::kName) {
    start_call(out);
  } else {
    start_value(out);
  }
  return Progress::kStepped;
}

Progress QwenCallParser::read_parameters(TextBuffer& in, std::vector<OutputEvent>& out) {
  raw_ += in.take_space();
  if (in.rest().empty()) return Progress::kNeedMore;
  const TagMatch match = find_tag(in.rest(), kBodyTags, true);
  if (match.before > 0) {
    state_ = State::kMalformed;
    return Progress::kStepped;
  }
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text == kParameter) {
    take(in, kParameter.size());
    key_.clear();
    state_ = State::kKey;
    return Progress::kStepped;
  }
  if (match.tag->text == kCall) {  // the next call, without an end of this one
    finish_call(false, out);
    return Progress::kClosed;
  }
  take(in, match.tag->text.size());
  finish_call(false, out);
  if (match.tag->text == kCallEnd) return Progress::kClosed;
  state_ = State::kBetweenCalls;
  return Progress::kStepped;
}

Progress QwenCallParser::read_value(TextBuffer& in, std::vector<OutputEvent>& out) {
  const TagMatch match = find_tag(in.rest(), kValueTags, at_line_start_);
  add_to_value(take(in, match.before), out);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text == kParameterEnd) take(in, kParameterEnd.size());
  close_value(out);
  state_ = State::kParameters;
  return Progress::kStepped;
}

Progress QwenCallParser::read_between_calls(TextBuffer& in) {
  in.take_space();
  if (in.rest().starts_with(kCallEnd)) {
    in.take(kCallEnd.size());
    return Progress::kClosed;
  }
  if (in.rest().starts_with(kFunction)) {
    begin("", thinking_);
    return Progress::kStepped;
  }
  const bool undecided = kCallEnd.starts_with(in.rest()) || kFunction.starts_with(in.rest());
  return undecided ? Progress::kNeedMore : Progress::kClosed;
}

Progress QwenCallParser::read_malformed(TextBuffer& in, std::vector<OutputEvent>& out) {
  const std::span<const Tag> tags = thinking_ ? std::span<const Tag>(kMalformedThinkingTags) : kMalformedTags;
  const TagMatch match = find_tag(in.rest(), tags, true);
  take(in, match.before);
  if (match.tag == nullptr) return Progress::kNeedMore;
  if (match.tag->text == kCallEnd) take(in, kCallEnd.size());
  finish_call(true, out);
  return Progress::kClosed;
}

void QwenCallParser::start_call(std::vector<OutputEvent>& out) {
  named_ = true;
  out.emplace_back(ToolCallBegun{begun_++, name_});
  state_ = State::kParameters;
}

void QwenCallParser::start_value(std::vector<OutputEvent>& out) {
  types_ = argument_types(tools_, name_, key_);
  value_.clear();
  value_empty_ = true;
  at_line_start_ = true;
  streamed_ = 0;
  const char* separator = arguments_.empty() ? "{\"" : ", \"";
  add_delta(out, ToolCallArguments{begun_ - 1, separator + json_escaped(key_) + "\": "});
  if (streams()) add_delta(out, ToolCallArguments{begun_ - 1, "\""});
  state_ = State::kValue;
}

void QwenCallParser::add_to_value(std::string_view text, std::vector<OutputEvent>& out) {
  if (text.empty()) return;
  at_line_start_ = text.back() == '\n';
  if (value_empty_ && text[0] == '\n') text.remove_prefix(1);
  value_empty_ = false;
  value_ += text;
  if (streams()) stream_value(false, out);
}

// Sends what is certain to belong to the value: a newline at the end may be the layout's, and a character may
// be incomplete.
void QwenCallParser::stream_value(bool complete, std::vector<OutputEvent>& out) {
  std::string_view ready = std::string_view(value_).substr(streamed_);
  if (!complete) {
    if (ready.ends_with('\n')) ready.remove_suffix(1);
    ready.remove_suffix(unfinished_utf8_suffix(ready));
  }
  streamed_ += ready.size();
  add_delta(out, ToolCallArguments{begun_ - 1, json_escaped(valid_text(ready))});
}

void QwenCallParser::close_value(std::vector<OutputEvent>& out) {
  if (value_.ends_with('\n')) value_.pop_back();
  Json value = convert_argument(valid_text(value_), types_);
  if (streams()) {
    stream_value(true, out);
    add_delta(out, ToolCallArguments{begun_ - 1, "\""});
  } else {
    add_delta(out, ToolCallArguments{begun_ - 1, python_json(value)});
  }
  arguments_[key_] = std::move(value);
}

void QwenCallParser::finish_call(bool malformed, std::vector<OutputEvent>& out) {
  const int index = named_ ? begun_ - 1 : -1;
  if (!malformed) add_delta(out, ToolCallArguments{index, arguments_.empty() ? "{}" : "}"});
  out.emplace_back(
      ToolCallFinished{index, valid_text(name_), std::move(arguments_), malformed, std::move(raw_)});
}

std::string_view QwenCallParser::take(TextBuffer& in, size_t count) {
  const std::string_view taken = in.take(count);
  raw_ += taken;
  return taken;
}

}  // namespace weir
