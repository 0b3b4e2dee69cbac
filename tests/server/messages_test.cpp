#include <gtest/gtest.h>

#include "server/messages_request.h"
#include "server/messages_response.h"
#include "server_testing.h"

namespace weir::server {
namespace {

Result<AnswerRequest> parse(const std::string& body) {
  return parse_messages_request(json(body), pocket_qwen());
}

std::string refusal(const std::string& more) {
  const auto parsed =
      parse(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], )" + more + "}");
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(MessagesRequest, fields_arrive_and_thinking_is_off_unless_asked_for) {
  const auto request =
      parse(R"({"model": "pocket-qwen", "max_tokens": 7, "system": "Be brief.", "temperature": 0.5,
    "top_p": 0.25, "top_k": 3, "stop_sequences": ["END"], "stream": true, "metadata": {"user_id": "u"},
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->generation.max_tokens, 7);
  EXPECT_EQ(request->generation.sampling.temperature, 0.5f);
  EXPECT_EQ(request->generation.sampling.top_p, 0.25f);
  EXPECT_EQ(request->generation.sampling.top_k, 3);
  EXPECT_EQ(request->generation.stop_strings, std::vector<std::string>{"END"});
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(prompt_text(*request, pocket_qwen()),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "<think>\n\n</think>\n\n");
}

TEST(MessagesRequest, a_thinking_budget_limits_the_thinking) {
  const auto request = parse(R"({"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024},
    "messages": [{"role": "user", "content": "Hi"}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(request->prompt_options.enable_thinking);
  EXPECT_TRUE(request->warnings.empty());
  EXPECT_EQ(request->generation.thinking->tokens, 1024);
}

TEST(MessagesRequest, tool_use_and_results_become_calls_and_tool_messages) {
  const auto request = parse(R"({"max_tokens": 5,
    "tools": [{"name": "add", "description": "Adds", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "2 + 2?"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "Use it", "signature": "s"},
        {"type": "text", "text": "Wait"}, {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
        "content": [{"type": "text", "text": "4"}]}, {"type": "text", "text": "So?"}]}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const auto& messages = request->conversation.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].reasoning, "Use it");
  EXPECT_EQ(messages[1].content.text(), "Wait");
  EXPECT_EQ(messages[1].tool_calls.at(0).name, "add");
  EXPECT_EQ(messages[1].tool_calls.at(0).arguments, json(R"({"a": 2})"));
  EXPECT_EQ(messages[2].role, Role::kTool);
  EXPECT_EQ(messages[2].tool_call_id, "t1");
  EXPECT_EQ(messages[2].content.text(), "4");
  EXPECT_EQ(messages[3].content.text(), "So?");
  EXPECT_EQ(request->conversation.tools.at(0).definition,
            json(R"({"type": "function", "function": {"name": "add",
    "description": "Adds", "parameters": {"type": "object"}}})"));
}

TEST(MessagesRequest, the_line_that_a_client_changes_with_every_request_is_left_out) {
  const auto request = parse(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}],
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1f"},
               {"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "B"}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->conversation.messages.front().content.text(), "A\nB");
}

TEST(MessagesRequest, what_is_not_there_is_refused_by_name) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("tool_choice": {"type": "any"})", "no tools"},
      {R"("tool_choice": {"type": "tool", "name": "a"})", "tool_choice"},
      {R"("thinking": {"type": "maybe"})", "thinking.type"},
      {R"("mcp_servers": [])", "mcp_servers"},
      {R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0].type"},
      {R"("tools": [{"name": "a"}])", "tools[0].input_schema"},
      {R"("context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]})",
       "context_management.edits"},
      {R"("output_config": {"format": {}})", "output_config.format"},
      {R"("frequency_penalty": 1)", "frequency_penalty"}};
  for (const auto& [more, name] : kCases) {
    EXPECT_NE(refusal(more).find(name), std::string::npos) << more << ": " << refusal(more);
  }
  EXPECT_EQ(
      refusal(R"("context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})"),
      "accepted");
}

TEST(MessagesRequest, hostile_messages_are_refused) {
  for (
      const char* messages :
      {"[]", "3", "null", "[3]", "[{}]", R"([{"role": "system", "content": "a"}])", R"([{"role": "user"}])",
       R"([{"role": "user", "content": []}])", R"([{"role": "user", "content": [3]}])",
       R"([{"role": "user", "content": [{"type": "image", "source": {}}]}])",
       R"([{"role": "user", "content": [{"type": "text", "text": 3}]}])",
       R"([{"role": "user", "content": [{"type": "tool_result"}]}])",
       R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])",
       R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": []}]}])"}) {
    EXPECT_FALSE(parse(std::string(R"({"max_tokens": 5, "messages": )") + messages + "}").ok()) << messages;
  }
}

TEST(MessagesRequest, counting_needs_no_max_tokens) {
  const Json body = json(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_FALSE(parse_messages_request(body, pocket_qwen()).ok());
  EXPECT_TRUE(parse_count_request(body, pocket_qwen()).ok());
}

AnswerDelta everything() {
  return {{ReasoningDelta{"Hm"}, ContentDelta{"Yes"}, ToolCallBegun{0, "add"},
           ToolCallArguments{0, R"({"a":1})"}, ToolCallFinished{0, "add", json(R"({"a": 1})"), false, ""}},
          {}};
}

TEST(MessagesBody, holds_blocks_in_order) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_messages_body(test_info(model));
  (void)writer->delta(0, everything());
  (void)writer->finish(0, {FinishReason::kStop, true, ""});
  EXPECT_EQ(json(writer->end({10, 8, 5, 1})),
            json(R"({"id": "msg_abc", "type": "message", "role": "assistant",
    "model": "pocket-qwen", "content": [{"type": "thinking", "thinking": "Hm", "signature": "weir"},
      {"type": "text", "text": "Yes"}, {"type": "tool_use", "id": "toolu_abcx0", "name": "add", "input": {"a": 1}}],
    "stop_reason": "tool_use", "stop_sequence": null,
    "usage": {"input_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 8,
              "output_tokens": 5}})"));
}

TEST(MessagesBody, names_the_stop_sequence) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_messages_body(test_info(model));
  (void)writer->finish(0, {FinishReason::kStopString, false, "END"});
  const Json body = json(writer->end({}));
  EXPECT_EQ(body["stop_reason"], "stop_sequence");
  EXPECT_EQ(body["stop_sequence"], "END");
}

TEST(MessagesStream, opens_and_closes_each_block) {
  const ServedModel model = pocket_qwen();
  ResponseInfo info = test_info(model);
  info.prompt_tokens = 10;
  const auto writer = make_messages_stream(info);
  std::string stream = writer->begin();
  stream += writer->delta(0, everything());
  stream += writer->finish(0, {FinishReason::kStop, true, ""});
  stream += writer->end({10, 8, 5, 1});
  std::string types;
  for (const Json& value : sse_values(stream)) {
    types += value["type"].get<std::string>() + (value.contains("index") ? value["index"].dump() : "") + " ";
  }
  EXPECT_EQ(
      types,
      "message_start content_block_start0 content_block_delta0 content_block_delta0 content_block_stop0 "
      "content_block_start1 content_block_delta1 content_block_stop1 content_block_start2 "
      "content_block_delta2 content_block_stop2 message_delta message_stop ");
  const auto values = sse_values(stream);
  EXPECT_EQ(values[0]["message"]["usage"]["input_tokens"], 10);
  EXPECT_EQ(values[2]["delta"], json(R"({"type": "thinking_delta", "thinking": "Hm"})"));
  EXPECT_EQ(values[3]["delta"], json(R"({"type": "signature_delta", "signature": "weir"})"));
  EXPECT_EQ(values[9]["delta"], json(R"({"type": "input_json_delta", "partial_json": "{\"a\":1}"})"));
  EXPECT_EQ(values[11]["delta"], json(R"({"stop_reason": "tool_use", "stop_sequence": null})"));
  EXPECT_EQ(values[11]["usage"]["cache_read_input_tokens"], 8);
}

}  // namespace
}  // namespace weir::server
