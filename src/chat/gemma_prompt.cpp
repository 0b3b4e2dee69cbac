#include "chat/gemma_prompt.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "chat/gemma_declaration.h"
#include "chat/gemma_markup.h"
#include "chat/gemma_value.h"
#include "chat/python_strip.h"

namespace weir {
namespace {

using namespace gemma;  // NOLINT: this file writes that layout

constexpr std::array<std::string_view, 13> kMarkers = {kBegin,      kTurn,        kTurnEnd, kThink, kChannel,
                                                       kChannelEnd, kTool,        kToolEnd, kCall,  kCallEnd,
                                                       kResponse,   kResponseEnd, kQuote};

// What the model writes inside its own turn and the layout leaves there.
constexpr std::array<std::string_view, 3> kTurnMarkers = {kCall, kCallEnd, kQuote};

// `text` without its channels, stripped. A channel that is never closed goes on to the end.
std::string without_channels(std::string_view text) {
  std::string kept;
  for (;;) {
    const size_t close = text.find(kChannelEnd);
    const std::string_view part = text.substr(0, close);
    kept += part.substr(0, part.find(kChannel));
    if (close == std::string_view::npos) return std::string(python_strip(kept));
    text.remove_prefix(close + kChannelEnd.size());
  }
}

bool is_empty(const MessageContent& content) {
  return content.items.empty() || (!content.is_list && content.items[0].empty());
}

std::string indexed(size_t index) {
  return "messages[" + std::to_string(index) + "]";
}

class GemmaRenderer {
 public:
  GemmaRenderer(const Conversation& conversation, const PromptOptions& options)
      : messages_(conversation.messages), tools_(conversation.tools), options_(options) {
    const auto last_user = std::find_if(messages_.rbegin(), messages_.rend(),
                                        [](const Message& m) { return m.role == Role::kUser; });
    after_last_user_ = static_cast<size_t>(messages_.rend() - last_user);
  }

  Result<Prompt> render() {
    if (messages_.empty()) return Error{Code::kInvalidArgument, "The conversation has no messages.", ""};
    const bool has_system = messages_[0].role == Role::kSystem;
    add_layout(kBegin);
    if (has_system || options_.enable_thinking || !tools_.empty()) add_system(has_system);
    bool turn_open = false;  // the model goes on where the prompt ends
    for (size_t i = has_system ? 1 : 0; i < messages_.size();) {
      const size_t results = results_after(i);
      WEIR_RETURN_IF_ERROR(add_message(i, results));
      turn_open = !messages_[i].tool_calls.empty();
      i += 1 + results;
    }
    if (options_.add_generation_prompt && !turn_open) {
      add_layout("<|turn>model\n");
      if (!options_.enable_thinking) add_layout("<|channel>thought\n<channel|>");
    }
    return prompt_.take();
  }

 private:
  void add_layout(std::string_view text) { prompt_.add_markup(text, kMarkers); }

  // Tool results that directly follow message i.
  size_t results_after(size_t i) const {
    if (messages_[i].tool_calls.empty()) return 0;
    size_t end = i + 1;
    while (end < messages_.size() && messages_[end].role == Role::kTool) ++end;
    return end - i - 1;
  }

  void add_system(bool has_text) {
    add_layout("<|turn>system\n");
    if (options_.enable_thinking) add_layout("<|think|>\n");
    if (has_text) {
      const MessageContent& content = messages_[0].content;
      for (const std::string& item : content.items) {
        prompt_.add_text(python_strip(item));
        if (content.is_list) prompt_.add_text(" ");
      }
    }
    for (const Tool& tool : tools_) {
      add_layout(kTool);
      add_declaration(tool, prompt_);
      add_layout(kToolEnd);
    }
    add_layout("<turn|>\n");
  }

  Status add_message(size_t i, size_t results) {
    const Message& message = messages_[i];
    switch (message.role) {
      case Role::kSystem:
        add_layout("<|turn>system\n");
        break;
      case Role::kUser:
        add_layout("<|turn>user\n");
        break;
      case Role::kAssistant:
        if (!continues_turn(i)) add_layout("<|turn>model\n");
        return add_assistant(i, results);
      case Role::kTool:
        return Error{Code::kInvalidArgument,
                     indexed(i) + " is a tool result that follows no assistant message with tool calls.",
                     "Keep the assistant message that called the tool, with its tool_calls."};
    }
    for (const std::string& item : message.content.items) prompt_.add_text(python_strip(item));
    add_layout("<turn|>\n");
    return Ok{};
  }

  // Whether the message before, other than tool results, was the assistant's too.
  bool continues_turn(size_t i) const {
    while (i > 0 && messages_[i - 1].role == Role::kTool) --i;
    return i > 0 && messages_[i - 1].role == Role::kAssistant;
  }

  Status add_assistant(size_t i, size_t results) {
    const Message& message = messages_[i];
    if (!message.tool_calls.empty()) add_reasoning(i);
    for (const ToolCall& call : message.tool_calls) {
      add_layout("<|tool_call>call:");
      prompt_.add_text(call.name);
      add_layout("{");
      add_members(call.arguments, prompt_);
      add_layout("}<tool_call|>");
    }
    for (size_t r = 0; r < results; ++r) WEIR_RETURN_IF_ERROR(add_result(i, r));
    for (const std::string& item : message.content.items) {
      prompt_.add_markup(without_channels(item), kTurnMarkers);
    }
    if (!message.tool_calls.empty() && results == 0) {
      add_layout(kResponse);
    } else if (results == 0 || !is_empty(message.content)) {
      add_layout("<turn|>\n");
    }
    return Ok{};
  }

  void add_reasoning(size_t i) {
    const std::optional<std::string>& reasoning = messages_[i].reasoning;
    if (i < after_last_user_ || !reasoning || reasoning->empty()) return;
    add_layout("<|channel>thought\n");
    prompt_.add_markup(*reasoning, kTurnMarkers);
    add_layout("\n<channel|>");
  }

  // The `order`th result of the calls of message i.
  Status add_result(size_t i, size_t order) {
    WEIR_TRY(const ToolCall* const call, call_of_result(i, order));
    const MessageContent& content = messages_[i + 1 + order].content;
    add_layout("<|tool_response>response:");
    prompt_.add_text(call->name);
    add_layout("{value:");
    const bool null = content.items.empty() && !content.is_list;
    add_value(null ? Json() : Json(content.text()), Keys::kBare, prompt_);
    add_layout("}<tool_response|>");
    return Ok{};
  }

  Result<const ToolCall*> call_of_result(size_t i, size_t order) const {
    const std::vector<ToolCall>& calls = messages_[i].tool_calls;
    const std::string& id = messages_[i + 1 + order].tool_call_id;
    const auto found = id.empty() ? calls.begin() + static_cast<std::ptrdiff_t>(std::min(order, calls.size()))
                                  : std::find_if(calls.begin(), calls.end(),
                                                 [&](const ToolCall& call) { return call.id == id; });
    if (found != calls.end()) return &*found;
    return Error{Code::kInvalidArgument,
                 indexed(i + 1 + order) + ".tool_call_id is " + python_json(id) + ": " + indexed(i) +
                     " has no such call.",
                 "Give each tool result the id of the call that it answers."};
  }

  const std::vector<Message>& messages_;
  const std::vector<Tool>& tools_;
  const PromptOptions& options_;
  size_t after_last_user_ = 0;  // index of the message after the last of the user
  PromptBuilder prompt_;
};

}  // namespace

Result<Prompt> gemma_prompt(const Conversation& conversation, const PromptOptions& options) {
  return GemmaRenderer(conversation, options).render();
}

}  // namespace weir
