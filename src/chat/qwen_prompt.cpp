#include "chat/qwen_prompt.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "chat/python_strip.h"

namespace weir {
namespace {

// What the model writes inside its own turn.
constexpr std::array<std::string_view, 4> kTurnMarkers = {"<think>", "</think>", "<tool_call>",
                                                          "</tool_call>"};

constexpr std::array<std::string_view, 8> kMarkers = {"<|im_start|>",    "<|im_end|>",      "<think>",
                                                      "</think>",        "<tool_call>",     "</tool_call>",
                                                      "<tool_response>", "</tool_response>"};

constexpr std::string_view kToolsBegin = "# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsEnd = R"(
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>)";

std::string_view strip_front(std::string_view text, char c) {
  return text.substr(std::min(text.find_first_not_of(c), text.size()));
}

// An assistant message, its thinking apart. Both parts refer to the message or to its stripped content.
struct AssistantText {
  std::string_view reasoning;
  std::string_view content;
};

AssistantText split_thinking(const Message& message, std::string_view content) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  if (message.reasoning) return {python_strip(*message.reasoning), content};
  const size_t first_close = content.find(kClose);
  if (first_close == std::string_view::npos) return {"", content};
  std::string_view reasoning = content.substr(0, first_close);
  const size_t open = reasoning.rfind(kOpen);
  if (open != std::string_view::npos) reasoning.remove_prefix(open + kOpen.size());
  content.remove_prefix(content.rfind(kClose) + kClose.size());
  return {python_strip(reasoning), strip_front(content, '\n')};
}

bool is_query(const Message& message, std::string_view content) {
  return message.role == Role::kUser &&
         !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>"));
}

class QwenRenderer {
 public:
  QwenRenderer(const Conversation& conversation, const PromptOptions& options)
      : messages_(conversation.messages), tools_(conversation.tools), options_(options) {
    for (const Message& message : messages_) {
      contents_.emplace_back(python_strip(message.content.text()));
    }
  }

  Result<Prompt> render() {
    WEIR_TRY(const size_t query, last_query());
    add_system();
    for (size_t i = 0; i < messages_.size(); ++i) {
      switch (messages_[i].role) {
        case Role::kSystem:
          if (i == 0) break;
          return Error{
              Code::kInvalidArgument,
              "messages[" + std::to_string(i) + "] is a system message: only the first message may be one.",
              "Put all instructions into the first message."};
        case Role::kUser:
          add_user(i);
          break;
        case Role::kAssistant:
          add_assistant(i, options_.preserve_thinking || i > query);
          break;
        case Role::kTool:
          add_tool_result(i);
          break;
      }
    }
    if (options_.add_generation_prompt) {
      add_layout("<|im_start|>assistant\n<think>\n");
      if (!options_.enable_thinking) add_layout("\n</think>\n\n");
    }
    return prompt_.take();
  }

 private:
  void add_layout(std::string_view text) { prompt_.add_markup(text, kMarkers); }
  void add_history(std::string_view text) { prompt_.add_markup(text, kTurnMarkers); }

  // Index of the last message in which the user asks something.
  Result<size_t> last_query() const {
    if (messages_.empty()) return Error{Code::kInvalidArgument, "The conversation has no messages.", ""};
    for (size_t i = messages_.size(); i-- > 0;) {
      if (is_query(messages_[i], contents_[i])) return i;
    }
    return Error{Code::kInvalidArgument, "The conversation has no user message that asks something.",
                 "Add a message of role user; tool results alone do not count."};
  }

  void add_system() {
    const bool has_system = messages_[0].role == Role::kSystem;
    if (tools_.empty() && !has_system) return;
    add_layout("<|im_start|>system\n");
    if (!tools_.empty()) {
      add_layout(kToolsBegin);
      for (const Tool& tool : tools_) {
        prompt_.add_text("\n");
        prompt_.add_text(python_json(tool.definition));
      }
      add_layout(kToolsEnd);
      if (has_system && !contents_[0].empty()) prompt_.add_text("\n\n");
    }
    if (has_system) prompt_.add_text(contents_[0]);
    add_layout("<|im_end|>\n");
  }

  void add_user(size_t i) {
    add_layout("<|im_start|>user\n");
    prompt_.add_text(contents_[i]);
    add_layout("<|im_end|>\n");
  }

  void add_assistant(size_t i, bool keep_thinking) {
    const AssistantText text = split_thinking(messages_[i], contents_[i]);
    add_layout("<|im_start|>assistant\n");
    if (keep_thinking) {
      add_layout("<think>\n");
      add_history(text.reasoning);
      add_layout("\n</think>\n\n");
    }
    add_history(text.content);
    std::string_view separator = text.content.empty() ? "" : "\n\n";
    for (const ToolCall& call : messages_[i].tool_calls) {
      add_layout(separator);
      add_call(call);
      separator = "\n";
    }
    add_layout("<|im_end|>\n");
  }

  void add_call(const ToolCall& call) {
    add_layout("<tool_call>\n<function=");
    add_history(call.name);
    add_layout(">\n");
    for (const auto& [key, value] : call.arguments.items()) {
      add_layout("<parameter=");
      add_history(key);
      add_layout(">\n");
      add_history(value.is_string() ? value.get_ref<const std::string&>() : python_json(value));
      add_layout("\n</parameter>\n");
    }
    add_layout("</function>\n</tool_call>");
  }

  // Results that follow each other share one user turn. A conversation that starts with one has no turn to
  // open: the model's layout leaves the header out.
  void add_tool_result(size_t i) {
    const bool first = i > 0 && messages_[i - 1].role != Role::kTool;
    const bool last = i + 1 == messages_.size() || messages_[i + 1].role != Role::kTool;
    if (first) add_layout("<|im_start|>user");
    add_layout("\n<tool_response>\n");
    prompt_.add_text(contents_[i]);
    add_layout("\n</tool_response>");
    if (last) add_layout("<|im_end|>\n");
  }

  const std::vector<Message>& messages_;
  const std::vector<Tool>& tools_;
  const PromptOptions& options_;
  std::vector<std::string> contents_;  // of each message, stripped
  PromptBuilder prompt_;
};

}  // namespace

Result<Prompt> qwen_prompt(const Conversation& conversation, const PromptOptions& options) {
  return QwenRenderer(conversation, options).render();
}

Result<std::string> render_qwen_prompt(const Conversation& conversation, const PromptOptions& options) {
  WEIR_TRY(const Prompt prompt, qwen_prompt(conversation, options));
  return flatten(prompt);
}

}  // namespace weir
