#include "server/chat_request.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "server/answer_form.h"

namespace weir::server {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

void read_max_tokens(Fields& fields, GenerationRequest& generation) {
  const auto old_name = fields.integer("max_tokens", 1, kMostTokens);
  const auto name = fields.integer("max_completion_tokens", 1, kMostTokens);
  if (name && old_name && *name != *old_name) {
    fields.fail("max_tokens", "and max_completion_tokens differ", "give one of them");
  }
  generation.max_tokens = name.value_or(old_name.value_or(0));
}

void read_logprobs(Fields& fields, GenerationRequest& generation) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (wanted) {
    generation.top_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    fields.fail("top_logprobs", "needs logprobs: true");
  }
}

void read_template_arguments(Fields& fields, AnswerRequest& request) {
  PromptOptions& options = request.prompt_options;
  const Json* given = fields.value("chat_template_kwargs");
  if (given == nullptr) return;
  Fields arguments(*given, "chat_template_kwargs");
  options.enable_thinking = arguments.boolean("enable_thinking").value_or(options.enable_thinking);
  options.preserve_thinking = arguments.boolean("preserve_thinking").value_or(options.preserve_thinking);
  read_thinking_budget(arguments, "thinking_budget", request);
  if (auto status = arguments.finish(); !status.ok()) fields.fail(std::move(status).error());
}

// OpenAI's newer name for what the models know as a system message.
Json with_known_roles(const Json& messages) {
  Json known = messages;
  if (!known.is_array()) return known;
  for (Json& message : known) {
    if (message.is_object() && message.contains("role") && message["role"] == "developer") {
      message["role"] = "system";
    }
  }
  return known;
}

void refuse_and_ignore(Fields& fields) {
  fields.refuse({"functions", "function_call"}, "use tools and tool_choice");
  fields.refuse({"audio", "web_search_options"});
  fields.refuse({"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"},
                "use response_format");
  fields.only("modalities", Json::array({"text"}), "the model reads and writes text");
  fields.only("store", false, "nothing is stored");
  fields.only("verbosity", "medium");
  fields.ignore({"metadata", "user", "service_tier", "prediction", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention"});
}

}  // namespace

void read_stream(Fields& fields, AnswerRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* given = fields.value("stream_options");
  if (given == nullptr) return;
  if (!request.stream) fields.fail("stream_options", "needs stream: true");
  Fields options(*given, "stream_options");
  request.include_usage = options.boolean("include_usage").value_or(false);
  options.ignore({"include_obfuscation"});
  if (auto status = options.finish(); !status.ok()) fields.fail(std::move(status).error());
}

Result<AnswerRequest> parse_chat_request(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request = default_request(model);
  read_model(fields, model);
  read_sampling(fields, model, request);
  read_max_tokens(fields, request.generation);
  read_logprobs(fields, request.generation);
  request.choices = fields.integer("n", 1, kMostChoices).value_or(1);
  read_template_arguments(fields, request);
  read_thinking_budget(fields, "thinking_budget", request);
  read_effort(fields, "reasoning_effort", model, request);
  read_format(fields, "response_format", request);
  read_stream(fields, request);
  const ToolChoice choice = read_tool_choice(fields);
  request.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  const Json* messages = fields.value("messages");
  if (messages == nullptr) fields.fail("messages", "is missing");
  const Json* tools = fields.value("tools");
  refuse_and_ignore(fields);
  WEIR_RETURN_IF_ERROR(fields.finish());

  WEIR_TRY(request.conversation, parse_messages(with_known_roles(*messages)));
  merge_system_messages(request.conversation.messages);
  if (tools != nullptr) {
    WEIR_TRY(request.conversation.tools, parse_tools(*tools));
  }
  WEIR_RETURN_IF_ERROR(choose_tools(choice, request));
  WEIR_RETURN_IF_ERROR(add_chat_prompt(request, model));
  return request;
}

}  // namespace weir::server
