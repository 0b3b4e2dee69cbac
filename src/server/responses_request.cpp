#include "server/responses_request.h"

#include <limits>
#include <string>
#include <utility>

#include "server/answer_form.h"
#include "server/chat_request.h"

namespace weir::server {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

Error invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message), ""};
}

std::string string_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Text parts, put together; a string is itself.
Result<std::string> text_of(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return invalid(where + " is " + shown(content) + ": expected text");
  std::string all;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string path = where + "[" + std::to_string(i) + "]";
    if (!part.is_object()) return invalid(path + " is " + shown(part) + ": expected an object");
    const std::string type = string_in(part, "type");
    if (type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text" &&
        type != "refusal") {
      return Error{Code::kUnsupported, path + ".type " + shown(Json(type)) + " is not supported",
                   "the model reads text only"};
    }
    all += string_in(part, type == "refusal" ? "refusal" : "text");
  }
  return all;
}

// Chat messages in OpenAI's form, as parse_messages() reads them. What an assistant thinks, says and calls in
// several items is one message.
class Messages {
 public:
  Status add(const Json& item, const std::string& where) {
    if (!item.is_object()) return invalid(where + " is " + shown(item) + ": expected an object");
    const std::string type = item.contains("type") ? string_in(item, "type") : "message";
    if (type == "message") return add_message(item, where);
    if (type == "reasoning") return add_reasoning(item, where);
    if (type == "function_call") return add_call(item);
    if (type == "function_call_output") return add_output(item, where);
    return Error{Code::kUnsupported, where + ".type " + shown(Json(type)) + " is not supported", ""};
  }

  void add_text(const std::string& role, std::string text) {
    all_.push_back({{"role", role}, {"content", std::move(text)}});
  }

  const Json& all() const { return all_; }

 private:
  Status add_message(const Json& item, const std::string& where) {
    std::string role = string_in(item, "role");
    if (role == "developer") role = "system";
    if (!item.contains("content")) return invalid(where + ".content is missing");
    WEIR_TRY(std::string text, text_of(item["content"], where + ".content"));
    if (role == "assistant") {
      Json& message = assistant();
      message["content"] = message["content"].is_null() ? text : string_in(message, "content") + text;
    } else {
      add_text(role, std::move(text));
    }
    return Ok{};
  }

  Status add_reasoning(const Json& item, const std::string& where) {
    const auto content = item.find("content");
    if (content == item.end() || content->is_null()) return Ok{};  // a summary alone tells nothing
    WEIR_TRY(const std::string text, text_of(*content, where + ".content"));
    Json& message = assistant();
    message["reasoning_content"] = string_in(message, "reasoning_content") + text;
    return Ok{};
  }

  Status add_call(const Json& item) {
    Json& message = assistant();
    message["tool_calls"].push_back(
        {{"id", string_in(item, "call_id")},
         {"type", "function"},
         {"function",
          {{"name", string_in(item, "name")}, {"arguments", item.value("arguments", Json("{}"))}}}});
    return Ok{};
  }

  Status add_output(const Json& item, const std::string& where) {
    if (!item.contains("output")) return invalid(where + ".output is missing");
    WEIR_TRY(std::string text, text_of(item["output"], where + ".output"));
    all_.push_back(
        {{"role", "tool"}, {"tool_call_id", string_in(item, "call_id")}, {"content", std::move(text)}});
    return Ok{};
  }

  Json& assistant() {
    if (all_.empty() || all_.back()["role"] != "assistant") {
      all_.push_back({{"role", "assistant"}, {"content", nullptr}});
    }
    return all_.back();
  }

  Json all_ = Json::array();
};

Result<Json> messages_of(const Json& input, const std::string& instructions) {
  Messages messages;
  if (!instructions.empty()) messages.add_text("system", instructions);
  if (input.is_string()) {
    messages.add_text("user", input.get<std::string>());
    return messages.all();
  }
  if (!input.is_array()) return invalid("input is " + shown(input) + ": expected text or an array of items");
  for (size_t i = 0; i < input.size(); ++i) {
    WEIR_RETURN_IF_ERROR(messages.add(input[i], "input[" + std::to_string(i) + "]"));
  }
  return messages.all();
}

// From the flat form of this endpoint to the nested one of chat completions.
Result<Json> nested_tools(const Json& tools) {
  if (!tools.is_array()) return invalid("tools is " + shown(tools) + ": expected an array");
  Json nested = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    if (!tools[i].is_object()) return invalid(where + " is " + shown(tools[i]) + ": expected an object");
    if (string_in(tools[i], "type") != "function") {
      return Error{Code::kUnsupported,
                   where + ".type " + shown(Json(string_in(tools[i], "type"))) + " is not supported",
                   "only functions, which the client runs"};
    }
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      if (tools[i].contains(name) && !tools[i][name].is_null()) function[name] = tools[i][name];
    }
    nested.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return nested;
}

void read_object(Fields& fields, const char* name, const auto& read) {
  const Json* given = fields.value(name);
  if (given == nullptr) return;
  Fields inner(*given, name);
  read(inner);
  if (auto status = inner.finish(); !status.ok()) fields.fail(std::move(status).error());
}

void read_settings(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  read_object(fields, "reasoning", [&](Fields& reasoning) {
    read_effort(reasoning, "effort", model, request);
    reasoning.ignore({"summary", "generate_summary"});
  });
  read_object(fields, "text", [&](Fields& text) {
    read_format(text, "format", request);
    text.only("verbosity", "medium");
  });
  fields.refuse({"previous_response_id", "conversation", "prompt", "max_tool_calls"},
                "nothing is kept between requests");
  fields.only("store", false, "nothing is kept between requests");
  fields.only("background", false);
  fields.only("truncation", "disabled", "prompts are never cut");
  fields.only("top_logprobs", 0, "use chat completions");
  fields.ignore({"metadata", "user", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "include", "client_metadata"});
}

}  // namespace

Result<AnswerRequest> parse_responses_request(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request = default_request(model);
  read_model(fields, model);
  read_sampling(fields, model, request);
  request.generation.max_tokens = fields.integer("max_output_tokens", 1, kMostTokens).value_or(0);
  read_stream(fields, request);
  read_settings(fields, model, request);
  const ToolChoice choice = read_tool_choice(fields);
  request.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  const std::string instructions = fields.text("instructions").value_or("");
  const Json* input = fields.value("input");
  if (input == nullptr) fields.fail("input", "is missing");
  const Json* tools = fields.value("tools");
  WEIR_RETURN_IF_ERROR(fields.finish());

  WEIR_TRY(const Json messages, messages_of(*input, instructions));
  WEIR_TRY(request.conversation, parse_messages(messages));
  merge_system_messages(request.conversation.messages);
  if (tools != nullptr) {
    WEIR_TRY(const Json nested, nested_tools(*tools));
    WEIR_TRY(request.conversation.tools, parse_tools(nested));
  }
  WEIR_RETURN_IF_ERROR(choose_tools(choice, request));
  WEIR_RETURN_IF_ERROR(add_chat_prompt(request, model));
  return request;
}

}  // namespace weir::server
