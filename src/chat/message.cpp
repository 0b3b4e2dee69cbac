#include "chat/message.h"

#include <array>
#include <string_view>

#include "base/utf8.h"

namespace weir {
namespace {

std::string indexed(std::string_view name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

Error unexpected(const std::string& where, const Json& value, std::string_view expected) {
  return {Code::kInvalidArgument, where + " is " + shown(value) + ": expected " + std::string(expected) + ".",
          ""};
}

// The field of `object`, or null when it is missing.
const Json& field(const Json& object, const char* name) {
  static const Json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

Result<std::string> string_field(const Json& object, const char* name, const std::string& where) {
  const Json& value = field(object, name);
  const std::string path = where + "." + name;
  if (!value.is_string()) return unexpected(path, value, "a string");
  WEIR_RETURN_IF_ERROR(check_json(value, path));
  return value.get<std::string>();
}

Result<std::string> optional_string_field(const Json& object, const char* name, const std::string& where) {
  if (field(object, name).is_null()) return std::string();
  return string_field(object, name, where);
}

Result<Role> parse_role(const Json& message, const std::string& where) {
  constexpr std::array<std::pair<std::string_view, Role>, 4> kRoles = {{{"system", Role::kSystem},
                                                                        {"user", Role::kUser},
                                                                        {"assistant", Role::kAssistant},
                                                                        {"tool", Role::kTool}}};
  WEIR_TRY(const std::string name, string_field(message, "role", where));
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  Error error = unexpected(where + ".role", field(message, "role"), "system, user, assistant or tool");
  if (name == "developer") error.hint = "Send instructions for the model as a system message.";
  return error;
}

Result<std::string> parse_text_item(const Json& item, const std::string& where) {
  if (!item.is_object()) return unexpected(where, item, "an object with type and text");
  const Json& type = field(item, "type");
  if (type == "text" || (type.is_null() && item.contains("text"))) return string_field(item, "text", where);
  for (const char* medium :
       {"image", "image_url", "input_image", "video", "video_url", "audio", "input_audio"}) {
    if (type == medium || (type.is_null() && item.contains(medium))) {
      return Error{Code::kUnsupported,
                   where + " is of type " + python_json(medium) + ": the model reads text only.",
                   "Describe it in text."};
    }
  }
  return unexpected(where + ".type", type, "\"text\"");
}

Result<MessageContent> parse_content(const Json& message, Role role, const std::string& message_path) {
  const std::string where = message_path + ".content";
  if (!message.contains("content") && role != Role::kAssistant) {
    return Error{Code::kInvalidArgument, where + " is missing.", ""};
  }
  const Json& value = field(message, "content");
  if (value.is_null()) return MessageContent();
  if (value.is_string()) {
    WEIR_TRY(std::string text, string_field(message, "content", message_path));
    return MessageContent(std::move(text));
  }
  if (!value.is_array()) return unexpected(where, value, "a string, null or a list of text items");
  MessageContent content;
  content.is_list = true;
  for (size_t i = 0; i < value.size(); ++i) {
    WEIR_TRY(std::string text, parse_text_item(value[i], indexed(where, i)));
    content.items.push_back(std::move(text));
  }
  return content;
}

Result<Json> parse_arguments(const Json& function, const std::string& where) {
  const Json& value = field(function, "arguments");
  if (value.is_null() || value == "") return Json::object();
  if (value.is_object()) {
    WEIR_RETURN_IF_ERROR(check_json(value, where));
    return value;
  }
  if (!value.is_string()) return unexpected(where, value, "an object or the JSON text of one");
  Result<Json> parsed = parse_json(value.get_ref<const std::string&>());
  if (!parsed.ok()) {
    return Error{parsed.error().code, where + " cannot be read. " + parsed.error().message, ""};
  }
  if (!parsed->is_object()) return unexpected(where, *parsed, "an object or the JSON text of one");
  return parsed;
}

Result<ToolCall> parse_tool_call(const Json& value, const std::string& where) {
  if (!value.is_object()) return unexpected(where, value, "an object");
  const Json& type = field(value, "type");
  if (!type.is_null() && type != "function") return unexpected(where + ".type", type, "\"function\"");
  const Json& function = field(value, "function");
  const std::string function_path = where + ".function";
  if (!function.is_object()) return unexpected(function_path, function, "an object");
  ToolCall call;
  WEIR_TRY(call.id, optional_string_field(value, "id", where));
  WEIR_TRY(call.name, string_field(function, "name", function_path));
  if (call.name.empty()) return Error{Code::kInvalidArgument, function_path + ".name is empty.", ""};
  WEIR_TRY(call.arguments, parse_arguments(function, function_path + ".arguments"));
  return call;
}

Status parse_assistant_fields(const Json& value, const std::string& where, Message& message) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    if (message.reasoning || field(value, name).is_null()) continue;
    WEIR_TRY(message.reasoning, string_field(value, name, where));
  }
  const Json& calls = field(value, "tool_calls");
  if (calls.is_null()) return Ok{};
  const std::string path = where + ".tool_calls";
  if (!calls.is_array()) return unexpected(path, calls, "an array");
  for (size_t i = 0; i < calls.size(); ++i) {
    WEIR_TRY(ToolCall call, parse_tool_call(calls[i], indexed(path, i)));
    message.tool_calls.push_back(std::move(call));
  }
  return Ok{};
}

// An empty or null field says nothing, whatever the role.
Status refuse_assistant_fields(const Json& value, const std::string& where) {
  for (const char* name : {"reasoning_content", "reasoning", "tool_calls"}) {
    const Json& found = field(value, name);
    if (found.is_null() || found.empty() || found == "") continue;
    return Error{Code::kInvalidArgument, where + "." + name + " is only allowed in an assistant message.",
                 ""};
  }
  return Ok{};
}

Result<Message> parse_message(const Json& value, const std::string& where) {
  if (!value.is_object()) return unexpected(where, value, "an object");
  Message message;
  WEIR_TRY(message.role, parse_role(value, where));
  WEIR_TRY(message.content, parse_content(value, message.role, where));
  if (message.role == Role::kAssistant) {
    WEIR_RETURN_IF_ERROR(parse_assistant_fields(value, where, message));
  } else {
    WEIR_RETURN_IF_ERROR(refuse_assistant_fields(value, where));
  }
  if (message.role == Role::kTool) {
    WEIR_TRY(message.tool_call_id, optional_string_field(value, "tool_call_id", where));
  }
  return message;
}

}  // namespace

std::string MessageContent::text() const {
  std::string all;
  for (const std::string& item : items) all += item;
  return all;
}

bool is_strict(const Tool& tool) {
  const auto function = tool.definition.find("function");
  if (function == tool.definition.end() || !function->is_object()) return false;
  const auto strict = function->find("strict");
  return strict != function->end() && *strict == true;
}

Result<std::vector<Tool>> parse_tools(const Json& tools) {
  std::vector<Tool> parsed;
  if (tools.is_null()) return parsed;
  if (!tools.is_array()) return unexpected("tools", tools, "an array");
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = indexed("tools", i);
    if (!tools[i].is_object()) return unexpected(where, tools[i], "an object");
    WEIR_RETURN_IF_ERROR(check_json(tools[i], where));
    const Json& type = field(tools[i], "type");
    if (!type.is_null() && type != "function") return unexpected(where + ".type", type, "\"function\"");
    const Json& function = field(tools[i], "function");
    if (!function.is_object()) return unexpected(where + ".function", function, "an object");
    WEIR_TRY(std::string name, string_field(function, "name", where + ".function"));
    if (name.empty()) return Error{Code::kInvalidArgument, where + ".function.name is empty.", ""};
    parsed.push_back({std::move(name), tools[i]});
  }
  return parsed;
}

Result<Conversation> parse_messages(const Json& messages, const Json& tools) {
  if (!messages.is_array()) return unexpected("messages", messages, "an array");
  if (messages.empty()) return Error{Code::kInvalidArgument, "messages is empty: expected at least one.", ""};
  Conversation conversation;
  for (size_t i = 0; i < messages.size(); ++i) {
    WEIR_TRY(Message message, parse_message(messages[i], indexed("messages", i)));
    conversation.messages.push_back(std::move(message));
  }
  WEIR_TRY(conversation.tools, parse_tools(tools));
  return conversation;
}

}  // namespace weir
