#include <set>
#include <string>
#include <utility>
#include <variant>

#include "server/canvas_json.h"
#include "server/chat_response.h"
#include "server/openai_json.h"

namespace weir::server {
namespace {

class ChatStream : public ResponseWriter {
 public:
  ChatStream(ResponseInfo info, bool frames) : info_(std::move(info)), frames_(frames) {}

  std::string delta(int64_t choice, const AnswerDelta& delta) override {
    std::string out = open(choice);
    Json logprobs = logprobs_json(delta);
    for (const OutputEvent& event : delta.events) {
      Json change = change_json(choice, event);
      if (change.is_null()) continue;
      out += chunk(choice, std::move(change), std::exchange(logprobs, nullptr), nullptr);
    }
    if (!logprobs.is_null()) out += chunk(choice, {{"content", ""}}, std::move(logprobs), nullptr);
    return out;
  }

  std::string frame(int64_t choice, const CanvasFrame& frame) override {
    if (!frames_) return {};
    Json event = canvas_json(frame, *info_.model->tokenizer);
    event["index"] = choice;
    return sse_event("canvas", event);
  }

  std::string finish(int64_t choice, const ChoiceEnd& end) override {
    return open(choice) + chunk(choice, Json::object(), nullptr, openai_finish_reason(end));
  }

  std::string end(const Usage& usage) override { return openai_stream_end(head(), info_, usage); }

  std::string fail(const Error& error) override { return openai_stream_failure(error); }

 private:
  Json head() const {
    return {{"id", "chatcmpl-" + info_.id},
            {"object", "chat.completion.chunk"},
            {"created", info_.created},
            {"model", info_.model->id},
            {"system_fingerprint", system_fingerprint()}};
  }

  std::string chunk(int64_t choice, Json change, Json logprobs, Json finish_reason) const {
    Json out = head();
    out["choices"] = Json::array({{{"index", choice},
                                   {"delta", std::move(change)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", std::move(finish_reason)}}});
    if (info_.include_usage) out["usage"] = nullptr;
    return sse_data(out);
  }

  // The first chunk of a choice says whose turn it is.
  std::string open(int64_t choice) {
    if (!opened_.insert(choice).second) return {};
    return chunk(choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }

  Json logprobs_json(const AnswerDelta& delta) const {
    if (delta.logprobs.empty()) return nullptr;
    Json entries = Json::array();
    for (const Logprobs& logprobs : delta.logprobs) {
      entries.push_back(openai_logprob(logprobs, *info_.model->tokenizer));
    }
    return {{"content", std::move(entries)}, {"refusal", nullptr}};
  }

  // Null for events that a stream has already told.
  Json change_json(int64_t choice, const OutputEvent& event) const {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      return {{"reasoning_content", reasoning->text}};
    }
    if (const auto* content = std::get_if<ContentDelta>(&event)) return {{"content", content->text}};
    if (const auto* begun = std::get_if<ToolCallBegun>(&event)) {
      return tool_change({{"index", begun->index},
                          {"id", call_id(info_, choice, begun->index)},
                          {"type", "function"},
                          {"function", {{"name", begun->name}, {"arguments", ""}}}});
    }
    if (const auto* arguments = std::get_if<ToolCallArguments>(&event)) {
      return tool_change({{"index", arguments->index}, {"function", {{"arguments", arguments->text}}}});
    }
    return nullptr;
  }

  static Json tool_change(Json call) {
    Json calls = Json::array();
    calls.push_back(std::move(call));
    Json change = Json::object();
    change["tool_calls"] = std::move(calls);
    return change;
  }

  ResponseInfo info_;
  bool frames_;
  std::set<int64_t> opened_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_chat_stream(ResponseInfo info, bool frames) {
  return std::make_unique<ChatStream>(std::move(info), frames);
}

}  // namespace weir::server
