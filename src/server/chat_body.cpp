#include <map>
#include <string>
#include <utility>
#include <variant>

#include "server/chat_response.h"
#include "server/openai_json.h"

namespace weir::server {
namespace {

struct Choice {
  std::string content;
  std::string reasoning;
  Json calls = Json::array();
  Json logprobs;  // stays null unless they were asked for
  std::string finish_reason;
};

Json choice_json(int64_t index, const Choice& choice) {
  Json message = {{"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (!choice.calls.empty()) {
    message["tool_calls"] = choice.calls;
    if (choice.content.empty()) message["content"] = nullptr;
  }
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs",
           choice.logprobs.is_null() ? Json() : Json{{"content", choice.logprobs}, {"refusal", nullptr}}},
          {"finish_reason", choice.finish_reason}};
}

class ChatBody : public ResponseWriter {
 public:
  explicit ChatBody(ResponseInfo info) : info_(std::move(info)) {}

  std::string delta(int64_t index, const AnswerDelta& delta) override {
    Choice& choice = choices_[index];
    for (const OutputEvent& event : delta.events) add(index, choice, event);
    for (const Logprobs& logprobs : delta.logprobs) {
      choice.logprobs.push_back(openai_logprob(logprobs, *info_.model->tokenizer));
    }
    return {};
  }

  std::string finish(int64_t index, const ChoiceEnd& end) override {
    choices_[index].finish_reason = openai_finish_reason(end);
    return {};
  }

  std::string end(const Usage& usage) override {
    Json choices = Json::array();
    for (const auto& [index, choice] : choices_) choices.push_back(choice_json(index, choice));
    return json_bytes({{"id", "chatcmpl-" + info_.id},
                       {"object", "chat.completion"},
                       {"created", info_.created},
                       {"model", info_.model->id},
                       {"system_fingerprint", system_fingerprint()},
                       {"choices", std::move(choices)},
                       {"usage", openai_usage(usage)}});
  }

  std::string fail(const Error&) override { return {}; }

 private:
  void add(int64_t index, Choice& choice, const OutputEvent& event) const {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      choice.reasoning += reasoning->text;
    } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
      choice.content += content->text;
    } else if (const auto* call = std::get_if<ToolCallFinished>(&event);
               call != nullptr && !call->malformed) {
      choice.calls.push_back(
          {{"id", call_id(info_, index, call->index)},
           {"type", "function"},
           {"function", {{"name", call->name}, {"arguments", json_bytes(call->arguments)}}}});
    }
  }

  ResponseInfo info_;
  std::map<int64_t, Choice> choices_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_chat_body(ResponseInfo info) {
  return std::make_unique<ChatBody>(std::move(info));
}

}  // namespace weir::server
