#include "server/responses_response.h"

#include <string>
#include <utility>
#include <variant>

#include "server/failure.h"
#include "server/openai_json.h"

namespace weir::server {
namespace {

bool cut_off(const ChoiceEnd& end) {
  return end.finish == FinishReason::kLength || end.finish == FinishReason::kContext;
}

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

Json text_part(const char* type, const std::string& text) {
  Json part = {{"type", type}, {"text", text}};
  if (part["type"] == "output_text") part["annotations"] = Json::array();
  return part;
}

// Builds the items of the output one after the other and tells each change as an event. A body is the same
// without the telling.
class ResponsesWriter : public ResponseWriter {
 public:
  ResponsesWriter(ResponseInfo info, bool stream) : info_(std::move(info)), stream_(stream) {}

  std::string begin() override {
    const Json response = response_json("in_progress");
    std::string out = event("response.created", {{"response", response}});
    return out += event("response.in_progress", {{"response", response}});
  }

  std::string delta(int64_t, const AnswerDelta& delta) override {
    std::string out;
    for (const OutputEvent& happened : delta.events) out += told(happened);
    return out;
  }

  std::string finish(int64_t, const ChoiceEnd& end) override {
    end_ = end;
    return close(cut_off(end) ? "incomplete" : "completed");
  }

  std::string end(const Usage& usage) override {
    Json response = response_json(cut_off(end_) ? "incomplete" : "completed");
    if (cut_off(end_)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["usage"] = usage_json(usage);
    if (!stream_) return json_bytes(response);
    return event(cut_off(end_) ? "response.incomplete" : "response.completed", {{"response", response}});
  }

  std::string fail(const Error& error) override {
    Json response = response_json("failed");
    response["error"] = {{"code", "server_error"}, {"message", failure_of(error).message}};
    return event("response.failed", {{"response", response}});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  Json response_json(const char* status) const {
    return {{"id", "resp_" + info_.id},
            {"object", "response"},
            {"created_at", info_.created},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"model", info_.model->id},
            {"output", output_},
            {"parallel_tool_calls", true},
            {"previous_response_id", nullptr},
            {"store", false},
            {"text", {{"format", {{"type", "text"}}}}},
            {"tool_choice", "auto"},
            {"tools", Json::array()},
            {"metadata", Json::object()},
            {"usage", nullptr}};
  }

  std::string event(const std::string& type, const Json& fields) {
    if (!stream_) return {};
    Json whole = {{"type", type}, {"sequence_number", sequence_number_++}};
    whole.update(fields);
    return sse_event(type, whole);
  }

  std::string told(const OutputEvent& happened) {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&happened)) {
      std::string out = open_text(Item::kReasoning);
      return out += add_text("response.reasoning_text.delta", reasoning->text);
    }
    if (const auto* content = std::get_if<ContentDelta>(&happened)) {
      std::string out = open_text(Item::kMessage);
      return out += add_text("response.output_text.delta", content->text);
    }
    if (const auto* begun = std::get_if<ToolCallBegun>(&happened)) return open_call(*begun);
    if (const auto* arguments = std::get_if<ToolCallArguments>(&happened)) {
      text_ += arguments->text;
      return event("response.function_call_arguments.delta", place({{"delta", arguments->text}}));
    }
    if (const auto* call = std::get_if<ToolCallFinished>(&happened)) return close_call(*call);
    return {};
  }

  // `fields` with where in the output they belong.
  Json place(Json fields) const {
    fields["item_id"] = item_["id"];
    fields["output_index"] = output_.size();
    if (open_ != Item::kCall) fields["content_index"] = 0;
    return fields;
  }

  std::string item_id(const char* prefix) const {
    return prefix + info_.id + "x" + std::to_string(output_.size());
  }

  std::string open_item(Item kind, Json item) {
    std::string out = close("completed");
    open_ = kind;
    item_ = std::move(item);
    text_.clear();
    return out + event("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
  }

  std::string open_text(Item kind) {
    if (open_ == kind) return {};
    std::string out = close("completed");
    if (kind == Item::kReasoning) {
      return out + open_item(kind, {{"id", item_id("rs_")},
                                    {"type", "reasoning"},
                                    {"summary", Json::array()},
                                    {"content", Json::array()},
                                    {"status", "in_progress"}});
    }
    out += open_item(kind, {{"id", item_id("msg_")},
                            {"type", "message"},
                            {"role", "assistant"},
                            {"content", Json::array()},
                            {"status", "in_progress"}});
    return out + event("response.content_part.added", place({{"part", text_part("output_text", "")}}));
  }

  std::string open_call(const ToolCallBegun& begun) {
    std::string out = close("completed");
    return out + open_item(Item::kCall, {{"id", item_id("fc_")},
                                         {"type", "function_call"},
                                         {"call_id", call_id(info_, 0, begun.index)},
                                         {"name", begun.name},
                                         {"arguments", ""},
                                         {"status", "in_progress"}});
  }

  // A malformed call follows as text. A stream has shown its beginning; a body need not.
  std::string close_call(const ToolCallFinished& call) {
    if (open_ != Item::kCall) return {};
    if (!call.malformed || stream_) return close(call.malformed ? "incomplete" : "completed");
    open_ = Item::kNone;
    return {};
  }

  std::string add_text(const char* type, const std::string& text) {
    text_ += text;
    return event(type, place({{"delta", text}}));
  }

  std::string close(const char* status) {
    if (open_ == Item::kNone) return {};
    std::string out;
    if (open_ == Item::kReasoning) {
      item_["content"].push_back(text_part("reasoning_text", text_));
      out = event("response.reasoning_text.done", place({{"text", text_}}));
    } else if (open_ == Item::kMessage) {
      const Json part = text_part("output_text", text_);
      item_["content"].push_back(part);
      out = event("response.output_text.done", place({{"text", text_}}));
      out += event("response.content_part.done", place({{"part", part}}));
    } else {
      item_["arguments"] = text_;
      out = event("response.function_call_arguments.done",
                  place({{"arguments", text_}, {"name", item_["name"]}}));
    }
    item_["status"] = status;
    out += event("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}});
    output_.push_back(std::move(item_));
    open_ = Item::kNone;
    return out;
  }

  ResponseInfo info_;
  bool stream_;
  int64_t sequence_number_ = 0;
  Json output_ = Json::array();
  Item open_ = Item::kNone;
  Json item_;         // the one that is being built
  std::string text_;  // of it
  ChoiceEnd end_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_responses_body(ResponseInfo info) {
  return std::make_unique<ResponsesWriter>(std::move(info), false);
}

std::unique_ptr<ResponseWriter> make_responses_stream(ResponseInfo info) {
  return std::make_unique<ResponsesWriter>(std::move(info), true);
}

}  // namespace weir::server
