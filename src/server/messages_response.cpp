#include "server/messages_response.h"

#include <string>
#include <utility>
#include <variant>

#include "server/failure.h"
#include "server/openai_json.h"

namespace weir::server {
namespace {

// Clients insist on a signature of thinking; weir does not check the one that comes back.
constexpr const char* kSignature = "weir";

const char* stop_reason(const ChoiceEnd& end) {
  switch (end.finish) {
    case FinishReason::kLength:
      return "max_tokens";
    case FinishReason::kContext:
      return "model_context_window_exceeded";
    case FinishReason::kStopString:
      return "stop_sequence";
    default:
      return end.called ? "tool_use" : "end_turn";
  }
}

Json stop_sequence(const ChoiceEnd& end) {
  return end.finish == FinishReason::kStopString ? Json(end.stop_string) : Json();
}

// What the prefix cache held is not part of input_tokens.
Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion}};
}

Json message_json(const ResponseInfo& info, Json content, const ChoiceEnd* end, const Usage& usage) {
  return {{"id", "msg_" + info.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", info.model->id},
          {"content", std::move(content)},
          {"stop_reason", end == nullptr ? Json() : Json(stop_reason(*end))},
          {"stop_sequence", end == nullptr ? Json() : stop_sequence(*end)},
          {"usage", usage_json(usage)}};
}

std::string tool_use_id(const ResponseInfo& info, int index) {
  return "toolu_" + info.id + "x" + std::to_string(index);
}

class MessagesBody : public ResponseWriter {
 public:
  explicit MessagesBody(ResponseInfo info) : info_(std::move(info)) {}

  std::string delta(int64_t, const AnswerDelta& delta) override {
    for (const OutputEvent& event : delta.events) {
      if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
        add_text("thinking", "thinking", reasoning->text);
      } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
        add_text("text", "text", content->text);
      } else if (const auto* call = std::get_if<ToolCallFinished>(&event);
                 call != nullptr && !call->malformed) {
        content_.push_back({{"type", "tool_use"},
                            {"id", tool_use_id(info_, call->index)},
                            {"name", call->name},
                            {"input", call->arguments}});
      }
    }
    return {};
  }

  std::string finish(int64_t, const ChoiceEnd& end) override {
    end_ = end;
    return {};
  }

  std::string end(const Usage& usage) override {
    for (Json& block : content_) {
      if (block["type"] == "thinking") block["signature"] = kSignature;
    }
    return json_bytes(message_json(info_, content_, &end_, usage));
  }

  std::string fail(const Error&) override { return {}; }

 private:
  // Goes on with the last block if that is of the same type.
  void add_text(const char* type, const char* field, const std::string& text) {
    if (content_.empty() || content_.back()["type"] != type) {
      content_.push_back({{"type", type}, {field, ""}});
    }
    content_.back()[field].get_ref<std::string&>() += text;
  }

  ResponseInfo info_;
  Json content_ = Json::array();
  ChoiceEnd end_;
};

class MessagesStream : public ResponseWriter {
 public:
  explicit MessagesStream(ResponseInfo info) : info_(std::move(info)) {}

  std::string begin() override {
    Usage usage;
    usage.prompt = info_.prompt_tokens;
    return event("message_start", {{"message", message_json(info_, Json::array(), nullptr, usage)}});
  }

  std::string delta(int64_t, const AnswerDelta& delta) override {
    std::string out;
    for (const OutputEvent& event : delta.events) out += told(event);
    return out;
  }

  std::string finish(int64_t, const ChoiceEnd& end) override {
    end_ = end;
    return close();
  }

  std::string end(const Usage& usage) override {
    return event("message_delta",
                 {{"delta", {{"stop_reason", stop_reason(end_)}, {"stop_sequence", stop_sequence(end_)}}},
                  {"usage", usage_json(usage)}}) +
           event("message_stop", Json::object());
  }

  std::string fail(const Error& error) override {
    return "event: error\ndata: " + failure_body(Protocol::kAnthropic, failure_of(error), info_.id) + "\n\n";
  }

 private:
  enum class Block { kNone, kText, kThinking, kToolUse };

  static std::string event(const std::string& type, const Json& fields) {
    Json whole = {{"type", type}};
    whole.update(fields);
    return sse_event(type, whole);
  }

  std::string told(const OutputEvent& event) {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      std::string out = open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      return out += block_delta({{"type", "thinking_delta"}, {"thinking", reasoning->text}});
    }
    if (const auto* content = std::get_if<ContentDelta>(&event)) {
      std::string out = open(Block::kText, {{"type", "text"}, {"text", ""}});
      return out += block_delta({{"type", "text_delta"}, {"text", content->text}});
    }
    if (const auto* begun = std::get_if<ToolCallBegun>(&event)) {
      std::string out = close();
      return out += open(Block::kToolUse, {{"type", "tool_use"},
                                           {"id", tool_use_id(info_, begun->index)},
                                           {"name", begun->name},
                                           {"input", Json::object()}});
    }
    if (const auto* arguments = std::get_if<ToolCallArguments>(&event)) {
      return block_delta({{"type", "input_json_delta"}, {"partial_json", arguments->text}});
    }
    return {};
  }

  std::string open(Block block, Json content) {
    if (open_ == block) return {};
    std::string out = close();
    open_ = block;
    return out + event("content_block_start", {{"index", index_}, {"content_block", std::move(content)}});
  }

  std::string block_delta(Json change) const {
    return event("content_block_delta", {{"index", index_}, {"delta", std::move(change)}});
  }

  std::string close() {
    if (open_ == Block::kNone) return {};
    std::string out;
    if (open_ == Block::kThinking)
      out = block_delta({{"type", "signature_delta"}, {"signature", kSignature}});
    out += event("content_block_stop", {{"index", index_}});
    ++index_;
    open_ = Block::kNone;
    return out;
  }

  ResponseInfo info_;
  Block open_ = Block::kNone;
  int64_t index_ = 0;
  ChoiceEnd end_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_messages_body(ResponseInfo info) {
  return std::make_unique<MessagesBody>(std::move(info));
}

std::unique_ptr<ResponseWriter> make_messages_stream(ResponseInfo info) {
  return std::make_unique<MessagesStream>(std::move(info));
}

}  // namespace weir::server
