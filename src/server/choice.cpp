#include "server/choice.h"

#include <utility>
#include <variant>

#include "chat/layout.h"
#include "generate/stop.h"
#include "text/stream_decoder.h"

namespace weir::server {

Choice::Choice(const AnswerRequest& request, const ServedModel& model)
    : tokenizer_(model.tokenizer),
      stop_strings_(request.generation.stop_strings),
      tools_offered_(!request.conversation.tools.empty()),
      one_call_(request.one_call) {
  if (!request.chat) return;
  const bool think = request.prompt_options.enable_thinking;
  parser_ =
      make_output_parser(model.layout, think, request.conversation.tools, request.form.schema.has_value());
  thinking_ = think && model.layout == ChatLayout::kQwen;  // its prompt opens the thinking
}

AnswerDelta Choice::piece(const Piece& piece) {
  AnswerDelta delta;
  if (complete()) return delta;
  if (piece.logprobs != nullptr) delta.logprobs.push_back(*piece.logprobs);
  if (!parser_) {
    add_delta(delta.events, ContentDelta{std::string(piece.text)});
    return delta;
  }
  add(parser_->feed(piece.text), delta);
  if (piece.token && thinking_) ++reasoning_tokens_;
  return delta;
}

AnswerDelta Choice::finish(const JobResult& result) {
  AnswerDelta delta;
  if (complete()) {
    end_ = {FinishReason::kStop, true, ""};
    return delta;
  }
  if (parser_) add(parser_->finish(result.finish != FinishReason::kStop), delta);
  end_ = {result.finish, called_, matched_stop(result)};
  return delta;
}

void Choice::add(std::vector<OutputEvent>&& events, AnswerDelta& delta) {
  for (OutputEvent& event : events) {
    if (complete()) return;
    if (auto* finished = std::get_if<ToolCallFinished>(&event)) {
      thinking_ = false;
      add_call_end(std::move(*finished), delta);
    } else if (auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      thinking_ = true;
      add_delta(delta.events, std::move(*reasoning));
    } else if (auto* content = std::get_if<ContentDelta>(&event)) {
      thinking_ = false;
      add_delta(delta.events, std::move(*content));
    } else if (tools_offered_) {
      thinking_ = false;
      delta.events.push_back(std::move(event));
    }
  }
}

void Choice::add_call_end(ToolCallFinished&& call, AnswerDelta& delta) {
  const bool is_text = !tools_offered_ || call.malformed;
  std::string raw = call.raw;
  called_ = called_ || !is_text;
  if (tools_offered_) delta.events.emplace_back(std::move(call));
  if (is_text) add_delta(delta.events, ContentDelta{std::move(raw)});
}

std::string Choice::matched_stop(const JobResult& result) const {
  if (result.finish != FinishReason::kStopString) return {};
  StreamDecoder decoder(*tokenizer_, SpecialTokens::kKeep);
  StopMatcher matcher(stop_strings_);
  for (const int32_t token : result.answer) matcher.feed(decoder.push(token));
  matcher.feed(decoder.finish());
  return matcher.matched() ? matcher.stop_string() : "";
}

}  // namespace weir::server
