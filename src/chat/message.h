// A conversation, as the prompt renderers of both models read it, and its translation from OpenAI-style JSON.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/json_text.h"

namespace weir {

enum class Role { kSystem, kUser, kAssistant, kTool };

// What a message says. A list of text items is kept as a list because some layouts space the items out; where
// a layout does not, text() is what counts.
struct MessageContent {
  MessageContent() = default;
  MessageContent(std::string text) : items{std::move(text)} {}  // NOLINT: implicit by design

  std::string text() const;  // all items, one after the other

  std::vector<std::string> items;  // exactly one unless is_list; none for null
  bool is_list = false;
};

struct ToolCall {
  std::string id = {};
  std::string name;
  Json arguments = Json::object();  // always an object
};

struct Message {
  Role role = Role::kUser;
  MessageContent content = {};
  std::optional<std::string> reasoning = {};  // assistant only; without it, a layout may look in content
  std::vector<ToolCall> tool_calls = {};      // assistant only
  std::string tool_call_id = {};              // tool only; may be empty
};

struct Tool {
  std::string name;
  Json definition;  // the whole {"type": "function", "function": {...}}
};

// "strict": true in its function: arguments must satisfy the schema.
bool is_strict(const Tool& tool);

struct Conversation {
  std::vector<Message> messages;
  std::vector<Tool> tools;
};

// `messages`: a non-empty array of OpenAI chat messages. content is a string, a list of text items, or null;
// reasoning comes as reasoning_content or reasoning; arguments of a tool call are an object or the JSON text
// of one. Fields that the models have no place for are ignored. `tools`: an array of OpenAI tool definitions,
// or null. Errors name the field, such as "messages[2].content[0].type": kInvalidArgument, or kUnsupported
// for images, audio and video.
Result<Conversation> parse_messages(const Json& messages, const Json& tools = Json());

Result<std::vector<Tool>> parse_tools(const Json& tools);

}  // namespace weir
