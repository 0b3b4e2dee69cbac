#include "server/answer_form.h"

#include <gtest/gtest.h>

#include "server/chat_request.h"
#include "server/messages_request.h"
#include "server/responses_request.h"
#include "server_testing.h"

namespace weir::server {
namespace {

const std::string kTools = R"("tools": [
  {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])";

Result<AnswerRequest> chat(const std::string& more, const ServedModel& model = pocket_qwen()) {
  return parse_chat_request(json(R"({"messages": [{"role": "user", "content": "Hi"}], )" + more + "}"),
                            model);
}
Result<AnswerRequest> responses(const std::string& more) {
  return parse_responses_request(json(R"({"input": "Hi", )" + more + "}"), pocket_qwen());
}
Result<AnswerRequest> messages(const std::string& more, const ServedModel& model = pocket_qwen()) {
  return parse_messages_request(
      json(R"({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], )" + more + "}"), model);
}

std::string refusal(const Result<AnswerRequest>& request) {
  return request.ok() ? "accepted" : request.error().message;
}

// Whether an answer without thinking may be this text, followed by an end token.
bool may_say(const Result<AnswerRequest>& request, const std::string& text) {
  EXPECT_TRUE(request.ok()) << refusal(request);
  EXPECT_TRUE(request->generation.grammar);
  grammar::TokenMatcher matcher(request->generation.grammar, {1357});
  const auto tokens = pocket_qwen().tokenizer->encode(text, AddedTokens::kRecognise);
  for (const int32_t token : *tokens) {
    if (!matcher.accept(token)) return false;
  }
  return matcher.complete();
}

const std::string kSchema =
    R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})";
const std::string kOff = R"("reasoning_effort": "none", )";

TEST(AnswerForm, every_protocol_takes_a_json_schema) {
  const Result<AnswerRequest> all[] = {
      chat(
          kOff +
          R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": )" +
          kSchema + "}}"),
      chat(kOff + R"("response_format": {"type": "json_object", "schema": )" + kSchema + "}"),
      responses(
          R"("reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema", "name": "x", "schema": )" +
          kSchema + "}}"),
      messages(R"("output_config": {"format": {"type": "json_schema", "schema": )" + kSchema + "}}")};
  for (const auto& request : all) {
    EXPECT_TRUE(may_say(request, R"({"n": 12})"));
    EXPECT_FALSE(may_say(request, R"({"n": "12"})"));
    EXPECT_FALSE(may_say(request, R"(Here it is: {"n": 12})"));
  }
  EXPECT_TRUE(
      may_say(chat(kOff + R"("response_format": {"type": "json_object"})"), R"({"any": [1, "thing"]})"));
  EXPECT_FALSE(may_say(chat(kOff + R"("response_format": {"type": "json_object"})"), "[1]"));
}

TEST(AnswerForm, thinking_comes_first_and_is_free) {
  const auto request = chat(R"("response_format": {"type": "json_object"})");
  EXPECT_TRUE(may_say(request, "Hm, {\n</think>\n\n{}"));
  EXPECT_FALSE(may_say(request, "{}"));
  EXPECT_FALSE(may_say(request, "Hm</think>\n\nfine"));
}

TEST(AnswerForm, schemas_that_cannot_be_enforced_are_refused_with_their_place) {
  EXPECT_NE(
      refusal(chat(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}})"))
          .find("response_format.json_schema.schema: not is not supported"),
      std::string::npos);
  EXPECT_NE(refusal(responses(R"("text": {"format": {"type": "json_schema", "schema": {"not": {}}}})"))
                .find("text.format.schema: not"),
            std::string::npos);
  EXPECT_NE(refusal(chat(R"("response_format": {"type": "json_schema"})")).find("schema is missing"),
            std::string::npos);
  EXPECT_NE(refusal(chat(R"("response_format": {"type": "grammar"})")).find("response_format.type"),
            std::string::npos);
  EXPECT_NE(
      refusal(chat(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}, "x": 1}})"))
          .find("json_schema.x"),
      std::string::npos);
}

TEST(AnswerForm, a_required_call_is_one_of_the_tools_or_the_named_one) {
  const std::string add =
      "<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n</function>\n</tool_call>";
  const std::string now = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
  const auto any = chat(kOff + kTools + R"(, "tool_choice": "required")");
  EXPECT_TRUE(may_say(any, add));
  EXPECT_TRUE(may_say(any, now + "\n" + add));
  EXPECT_FALSE(may_say(any, "Hello"));
  EXPECT_FALSE(
      may_say(any, "<tool_call>\n<function=add>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"));
  const auto named =
      chat(kOff + kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "now"}})");
  EXPECT_TRUE(may_say(named, now));
  EXPECT_FALSE(may_say(named, add));
  EXPECT_FALSE(may_say(named, now + "\n" + now));
  EXPECT_EQ(named->conversation.tools.size(), 2u);  // the model still knows the others
  const auto one = chat(kOff + kTools + R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_FALSE(may_say(one, now + "\n" + now));
  const std::string claude =
      R"("tools": [{"name": "now", "input_schema": {"type": "object"}}], "tool_choice": )";
  EXPECT_TRUE(may_say(messages(claude + R"({"type": "any"})"), now));
  EXPECT_TRUE(may_say(messages(claude + R"({"type": "tool", "name": "now"})"), now));
  EXPECT_NE(refusal(messages(claude + R"({"type": "tool", "name": "then"})")).find("\"then\""),
            std::string::npos);
  EXPECT_NE(refusal(chat(R"("tool_choice": "required")")).find("no tools"), std::string::npos);
  EXPECT_NE(refusal(chat(kTools + R"(, "tool_choice": {"type": "function", "name": "sub"})")).find("\"sub\""),
            std::string::npos);
  EXPECT_NE(refusal(chat(kTools + R"(, "tool_choice": {"type": "custom"})")).find("tool_choice"),
            std::string::npos);
}

TEST(AnswerForm, strict_tools_leave_the_choice_but_not_the_arguments) {
  const auto request =
      chat(kOff + R"("tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters":
      {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"], "additionalProperties": false}}}])");
  EXPECT_TRUE(may_say(request, "No need."));
  EXPECT_TRUE(may_say(
      request,
      "So\n\n<tool_call>\n<function=f>\n<parameter=x>\ntrue\n</parameter>\n</function>\n</tool_call>"));
  EXPECT_FALSE(may_say(request, "<tool_call>\n<function=f>\n</function>\n</tool_call>"));
  EXPECT_NE(
      refusal(
          chat(
              R"("tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"properties":
      {"x": {"not": {}}}}}}])"))
          .find("tools[0].parameters.properties.x: not"),
      std::string::npos);
}

TEST(AnswerForm, what_is_not_enforced_of_tools_that_are_not_strict_is_said) {
  const auto request = chat(
      R"("tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"x": {"type": "array", "items": {}, "uniqueItems": true}}}}}])");
  ASSERT_TRUE(request.ok()) << refusal(request);
  ASSERT_EQ(request->warnings.size(), 1u);
  EXPECT_NE(request->warnings[0].find("uniqueItems"), std::string::npos);
}

TEST(AnswerForm, efforts_and_budgets_limit_the_thinking) {
  const auto limit = [](const Result<AnswerRequest>& request) {
    EXPECT_TRUE(request.ok()) << refusal(request);
    const auto& thinking = request->generation.thinking;
    return thinking ? thinking->tokens : request->prompt_options.enable_thinking ? int64_t{-1} : int64_t{0};
  };
  EXPECT_EQ(limit(chat(R"("reasoning_effort": "none")")), 0);
  EXPECT_EQ(limit(chat(R"("reasoning_effort": "minimal")")), 512);
  EXPECT_EQ(limit(chat(R"("reasoning_effort": "low")")), 2048);
  EXPECT_EQ(limit(chat(R"("reasoning_effort": "medium")")), 8192);
  EXPECT_EQ(limit(chat(R"("reasoning_effort": "high")")), -1);
  EXPECT_EQ(limit(chat(R"("thinking_budget": 77)")), 77);
  EXPECT_EQ(limit(chat(R"("thinking_budget": 77, "reasoning_effort": "low")")), 77);
  EXPECT_EQ(limit(chat(R"("chat_template_kwargs": {"thinking_budget": 5})")), 5);
  EXPECT_EQ(limit(chat(R"("thinking_budget": 0)")), 0);
  EXPECT_EQ(limit(responses(R"("reasoning": {"effort": "low"})")), 2048);
  EXPECT_EQ(limit(messages(R"("thinking": {"type": "enabled", "budget_tokens": 1024})")), 1024);
  EXPECT_EQ(limit(messages(R"("thinking": {"type": "adaptive"}, "output_config": {"effort": "low"})")), 2048);
  EXPECT_EQ(limit(messages(R"("output_config": {"effort": "low"})")), 0);
  EXPECT_NE(refusal(chat(R"("reasoning_effort": "lots")")).find("reasoning_effort"), std::string::npos);
  EXPECT_NE(refusal(chat(R"("thinking_budget": -1)")).find("thinking_budget"), std::string::npos);
  const auto request = chat(R"("thinking_budget": 77)");
  EXPECT_EQ(pocket_qwen().tokenizer->decode(request->generation.thinking->forced, SpecialTokens::kKeep),
            "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking "
            "directly now.\n</think>\n\n");
}

TEST(AnswerForm, a_diffusion_model_refuses_all_of_it_by_name) {
  const ServedModel gemma = pocket_gemma();
  EXPECT_NE(refusal(chat(R"("response_format": {"type": "json_object"})", gemma)).find("response_format"),
            std::string::npos);
  EXPECT_NE(refusal(chat(kTools + R"(, "tool_choice": "required")", gemma)).find("tool_choice"),
            std::string::npos);
  EXPECT_NE(refusal(chat(R"("thinking_budget": 9)", gemma)).find("thinking_budget"), std::string::npos);
  EXPECT_NE(refusal(chat(R"("reasoning_effort": "low")", gemma)).find("reasoning_effort"), std::string::npos);
  EXPECT_NE(
      refusal(chat(R"("tools": [{"type": "function", "function": {"name": "a", "strict": true}}])", gemma))
          .find("tools[0].strict"),
      std::string::npos);
  const auto claude = messages(R"("thinking": {"type": "enabled", "budget_tokens": 1024})", gemma);
  ASSERT_TRUE(claude.ok()) << refusal(claude);
  EXPECT_EQ(claude->warnings, std::vector<std::string>{"thinking.budget_tokens is not enforced"});
}

}  // namespace
}  // namespace weir::server
