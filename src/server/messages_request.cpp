#include "server/messages_request.h"

#include <limits>
#include <string>

#include "server/answer_form.h"
#include "server/messages_content.h"

namespace weir::server {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

void read_anthropic_sampling(Fields& fields, const ServedModel& model, GenerationRequest& generation,
                             AnswerRequest& request) {
  Sampling& sampling = generation.sampling;
  if (const auto temperature = fields.number("temperature")) set_temperature(*temperature, model, request);
  if (const auto top_p = fields.number("top_p")) sampling.top_p = static_cast<float>(*top_p);
  if (const auto top_k = fields.integer("top_k", 0, kMostTokens)) sampling.top_k = static_cast<int>(*top_k);
  generation.stop_strings = fields.texts("stop_sequences");
}

void read_thinking(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  request.prompt_options.enable_thinking = false;
  const Json* given = fields.value("thinking");
  if (given == nullptr) return;
  Fields thinking(*given, "thinking");
  const std::string type = thinking.text("type").value_or("");
  const auto budget = thinking.integer("budget_tokens", 1, kMostTokens);
  thinking.ignore({"display"});
  if (type == "enabled" || type == "adaptive") {
    request.prompt_options.enable_thinking = true;
    if (!model.is_diffusion) {
      request.thinking_budget = budget;
    } else if (budget) {
      request.warnings.push_back("thinking.budget_tokens is not enforced");
    }
  } else if (type != "disabled") {
    thinking.fail("type", "is " + shown(Json(type)) + ": expected enabled, adaptive or disabled");
  }
  if (auto status = thinking.finish(); !status.ok()) fields.fail(std::move(status).error());
}

ToolChoice read_anthropic_choice(Fields& fields, AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  const Json* given = fields.value("tool_choice");
  if (given == nullptr) return {};
  Fields choice(*given, "tool_choice");
  const std::string type = choice.text("type").value_or("");
  const std::string name = choice.text("name").value_or("");
  request.one_call = choice.boolean("disable_parallel_tool_use").value_or(false);
  if (type == "tool" && name.empty()) choice.fail("name", "is missing");
  if (type != "auto" && type != "none" && type != "any" && type != "tool") {
    choice.fail("type", "is " + shown(Json(type)) + ": expected auto, none, any or tool");
  }
  if (auto status = choice.finish(); !status.ok()) fields.fail(std::move(status).error());
  if (type == "tool") return {Kind::kRequired, name};
  return {type == "any" ? Kind::kRequired : type == "none" ? Kind::kNone : Kind::kAuto, ""};
}

// Of all that can be done with a long context, only the clearing of old thinking happens: the layouts do it.
void read_context_management(Fields& fields) {
  const Json* given = fields.value("context_management");
  if (given == nullptr) return;
  Fields management(*given, "context_management");
  const Json* edits = management.value("edits");
  for (const Json& edit : edits != nullptr && edits->is_array() ? *edits : Json::array()) {
    const auto type = edit.is_object() ? edit.find("type") : edit.end();
    const bool thinking = edit.is_object() && type != edit.end() && type->is_string() &&
                          type->get_ref<const std::string&>().starts_with("clear_thinking");
    if (!thinking) management.fail("edits", "holds an edit that is not supported", "only clear_thinking is");
  }
  if (auto status = management.finish(); !status.ok()) fields.fail(std::move(status).error());
}

// The effort limits the thinking that the request has turned on; a budget of its own comes first.
void read_output_config(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  const Json* given = fields.value("output_config");
  if (given == nullptr) return;
  Fields config(*given, "output_config");
  read_format(config, "format", request);
  const bool think = request.prompt_options.enable_thinking;
  read_effort(config, "effort", model, request);
  request.prompt_options.enable_thinking = think;
  config.ignore({"task_budget"});
  if (auto status = config.finish(); !status.ok()) fields.fail(std::move(status).error());
}

Result<AnswerRequest> parse(const Json& body, const ServedModel& model, bool counting) {
  Fields fields(body);
  AnswerRequest request = default_request(model);
  read_model(fields, model);
  read_anthropic_sampling(fields, model, request.generation, request);
  const auto max_tokens = fields.integer("max_tokens", 1, kMostTokens);
  if (!max_tokens && !counting) fields.fail("max_tokens", "is missing");
  request.generation.max_tokens = max_tokens.value_or(1);
  request.stream = fields.boolean("stream").value_or(false);
  read_thinking(fields, model, request);
  const ToolChoice choice = read_anthropic_choice(fields, request);
  read_context_management(fields);
  read_output_config(fields, model, request);
  read_format(fields, "output_format", request);
  fields.refuse({"mcp_servers", "container"});
  fields.ignore({"metadata", "service_tier", "inference_geo", "cache_control"});
  const Json* messages = fields.value("messages");
  const Json* system = fields.value("system");
  const Json* tools = fields.value("tools");
  WEIR_RETURN_IF_ERROR(fields.finish());
  WEIR_TRY(request.conversation, parse_anthropic_conversation(messages, system, tools));
  WEIR_RETURN_IF_ERROR(choose_tools(choice, request));
  WEIR_RETURN_IF_ERROR(add_chat_prompt(request, model));
  return request;
}

}  // namespace

Result<AnswerRequest> parse_messages_request(const Json& body, const ServedModel& model) {
  return parse(body, model, false);
}

Result<AnswerRequest> parse_count_request(const Json& body, const ServedModel& model) {
  return parse(body, model, true);
}

}  // namespace weir::server
