#include "server/messages_content.h"

#include <string>
#include <utility>

#include "server/fields.h"

namespace weir::server {
namespace {

constexpr std::string_view kAttribution = "x-anthropic-billing-header:";

std::string indexed(const std::string& name, size_t index) {
  return name + "[" + std::to_string(index) + "]";
}

Error invalid(std::string message, std::string hint = "") {
  return {Code::kInvalidArgument, std::move(message), std::move(hint)};
}

std::string type_of(const Json& block) {
  if (!block.is_object()) return "";
  const auto type = block.find("type");
  return type != block.end() && type->is_string() ? type->get<std::string>() : "";
}

Error unreadable(const std::string& type, const std::string& where) {
  if (type == "image" || type == "document") {
    return {Code::kUnsupported, where + " is of type " + type + ": the model reads text only",
            "describe it in text"};
  }
  if (type.empty()) return invalid(where + " has no type: expected a content block");
  return {Code::kUnsupported, where + ".type " + shown(Json(type)) + " is not supported", ""};
}

Result<std::string> text_field(const Json& block, const char* name, const std::string& where) {
  const auto found = block.find(name);
  if (found == block.end() || !found->is_string()) return invalid(where + "." + name + " is no string");
  return found->get<std::string>();
}

// A string, or text blocks put together.
Result<std::string> text_of(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return std::string();
  if (!value.is_array())
    return invalid(where + " is " + shown(value) + ": expected a string or content blocks");
  std::string all;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = indexed(where, i);
    if (type_of(value[i]) != "text") return unreadable(type_of(value[i]), path);
    WEIR_TRY(const std::string text, text_field(value[i], "text", path));
    all += text;
  }
  return all;
}

Result<std::string> system_text(const Json& system) {
  if (!system.is_array()) return text_of(system, "system");
  std::string all;
  for (size_t i = 0; i < system.size(); ++i) {
    WEIR_TRY(const std::string text, text_of(Json::array({system[i]}), indexed("system", i)));
    if (text.starts_with(kAttribution)) continue;
    all += (all.empty() ? "" : "\n") + text;
  }
  return all;
}

void add_user_text(Conversation& conversation, std::string text, bool fresh) {
  if (!fresh && !conversation.messages.empty() && conversation.messages.back().role == Role::kUser) {
    Message& last = conversation.messages.back();
    last.content = MessageContent(last.content.text() + text);
    return;
  }
  Message message;
  message.content = MessageContent(std::move(text));
  conversation.messages.push_back(std::move(message));
}

Status add_tool_result(Conversation& conversation, const Json& block, const std::string& where) {
  Message message;
  message.role = Role::kTool;
  WEIR_TRY(message.tool_call_id, text_field(block, "tool_use_id", where));
  std::string text;
  if (const auto content = block.find("content"); content != block.end()) {
    WEIR_TRY(text, text_of(*content, where + ".content"));
  }
  message.content = MessageContent(std::move(text));
  conversation.messages.push_back(std::move(message));
  return Ok{};
}

Status add_user(Conversation& conversation, const Json& content, const std::string& where) {
  if (!content.is_array()) {
    WEIR_TRY(std::string text, text_of(content, where));
    add_user_text(conversation, std::move(text), true);
    return Ok{};
  }
  if (content.empty()) return invalid(where + " is empty");
  bool fresh = true;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string path = indexed(where, i);
    const std::string type = type_of(content[i]);
    if (type == "tool_result") {
      WEIR_RETURN_IF_ERROR(add_tool_result(conversation, content[i], path));
    } else if (type == "text") {
      WEIR_TRY(std::string text, text_field(content[i], "text", path));
      add_user_text(conversation, std::move(text), fresh);
      fresh = false;
    } else {
      return unreadable(type, path);
    }
  }
  return Ok{};
}

Status add_tool_use(Message& message, const Json& block, const std::string& where) {
  ToolCall call;
  WEIR_TRY(call.id, text_field(block, "id", where));
  WEIR_TRY(call.name, text_field(block, "name", where));
  if (call.name.empty()) return invalid(where + ".name is empty");
  if (const auto input = block.find("input"); input != block.end()) {
    if (!input->is_object()) return invalid(where + ".input is " + shown(*input) + ": expected an object");
    call.arguments = *input;
  }
  message.tool_calls.push_back(std::move(call));
  return Ok{};
}

Status add_assistant_block(Message& message, std::string& text, const Json& block, const std::string& where) {
  const std::string type = type_of(block);
  if (type == "text") {
    WEIR_TRY(const std::string more, text_field(block, "text", where));
    text += more;
  } else if (type == "thinking") {
    WEIR_TRY(const std::string thinking, text_field(block, "thinking", where));
    message.reasoning = message.reasoning.value_or("") + thinking;
  } else if (type == "tool_use") {
    return add_tool_use(message, block, where);
  } else {
    return unreadable(type, where);
  }
  return Ok{};
}

Status add_assistant(Conversation& conversation, const Json& content, const std::string& where) {
  Message message;
  message.role = Role::kAssistant;
  std::string text;
  if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i) {
      WEIR_RETURN_IF_ERROR(add_assistant_block(message, text, content[i], indexed(where, i)));
    }
  } else {
    WEIR_TRY(text, text_of(content, where));
  }
  message.content = MessageContent(std::move(text));
  conversation.messages.push_back(std::move(message));
  return Ok{};
}

Status add_message(Conversation& conversation, const Json& value, const std::string& where) {
  if (!value.is_object()) return invalid(where + " is " + shown(value) + ": expected an object");
  Fields fields(value, where);
  const std::string role = fields.text("role").value_or("");
  const Json* content = fields.value("content");
  if (content == nullptr) fields.fail("content", "is missing");
  if (role != "user" && role != "assistant") fields.fail("role", "is no role: expected user or assistant");
  WEIR_RETURN_IF_ERROR(fields.finish());
  return role == "user" ? add_user(conversation, *content, where + ".content")
                        : add_assistant(conversation, *content, where + ".content");
}

// In OpenAI's nested form, which the prompts of both models show.
Result<Tool> parse_tool(const Json& value, const std::string& where) {
  Fields fields(value, where);
  const auto type = fields.text("type");
  if (type && *type != "custom") {
    return Error{Code::kUnsupported, where + ".type " + shown(Json(*type)) + " is not supported",
                 "tools that the client runs have a name and an input_schema"};
  }
  const auto name = fields.text("name");
  const auto description = fields.text("description");
  const Json* schema = fields.value("input_schema");
  if (!name || name->empty()) fields.fail("name", "is missing");
  if (schema == nullptr || !schema->is_object()) fields.fail("input_schema", "is no object");
  const bool strict = fields.boolean("strict").value_or(false);
  fields.ignore({"cache_control", "eager_input_streaming", "input_examples"});
  WEIR_RETURN_IF_ERROR(fields.finish());
  Json function = {{"name", *name}};
  if (description) function["description"] = *description;
  function["parameters"] = *schema;
  if (strict) function["strict"] = true;
  return Tool{*name, {{"type", "function"}, {"function", std::move(function)}}};
}

}  // namespace

Result<Conversation> parse_anthropic_conversation(const Json* messages, const Json* system,
                                                  const Json* tools) {
  Conversation conversation;
  if (system != nullptr) {
    WEIR_TRY(std::string text, system_text(*system));
    Message message;
    message.role = Role::kSystem;
    message.content = MessageContent(std::move(text));
    if (!message.content.text().empty()) conversation.messages.push_back(std::move(message));
  }
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return invalid("messages is no array of messages, or empty");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    WEIR_RETURN_IF_ERROR(add_message(conversation, (*messages)[i], indexed("messages", i)));
  }
  if (conversation.messages.back().role == Role::kAssistant) {
    return Error{Code::kUnsupported, "the last of messages is the assistant's: an answer cannot be continued",
                 "end with a user message"};
  }
  if (tools == nullptr) return conversation;
  if (!tools->is_array()) return invalid("tools is " + shown(*tools) + ": expected an array");
  for (size_t i = 0; i < tools->size(); ++i) {
    WEIR_TRY(Tool tool, parse_tool((*tools)[i], indexed("tools", i)));
    conversation.tools.push_back(std::move(tool));
  }
  return conversation;
}

}  // namespace weir::server
