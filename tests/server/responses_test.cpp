#include <gtest/gtest.h>

#include "server/responses_request.h"
#include "server/responses_response.h"
#include "server_testing.h"

namespace weir::server {
namespace {

Result<AnswerRequest> parse(const std::string& body) {
  return parse_responses_request(json(body), pocket_qwen());
}

TEST(ResponsesRequest, text_and_instructions_make_a_conversation) {
  const auto request = parse(R"({"input": "Hi", "instructions": "Be brief.", "max_output_tokens": 9,
    "reasoning": {"effort": "none", "summary": "auto"}, "store": false, "text": {"format": {"type": "text"}}})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->generation.max_tokens, 9);
  EXPECT_EQ(prompt_text(*request, pocket_qwen()),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "<think>\n\n</think>\n\n");
}

TEST(ResponsesRequest, items_of_one_turn_join_into_one_message) {
  const auto request = parse(R"({"input": [
    {"role": "user", "content": [{"type": "input_text", "text": "2 + 2?"}]},
    {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait"}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 2}"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"}],
    "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": null}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const auto& messages = request->conversation.messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].reasoning, "Hm");
  EXPECT_EQ(messages[1].content.text(), "Wait");
  EXPECT_EQ(messages[1].tool_calls.at(0).arguments, json(R"({"a": 2})"));
  EXPECT_EQ(messages[2].tool_call_id, "c1");
  EXPECT_EQ(request->conversation.tools.at(0).name, "add");
}

TEST(ResponsesRequest, what_is_not_there_is_refused) {
  for (const char* more :
       {R"("previous_response_id": "r")", R"("store": true)", R"("background": true)",
        R"("truncation": "auto")", R"("conversation": "c")", R"("n": 2)",
        R"("text": {"format": {"type": "json_schema"}})", R"("tools": [{"type": "web_search"}])",
        R"("tools": [3])", R"("reasoning": {"effort": "lots"})", R"("top_logprobs": 2)"}) {
    EXPECT_FALSE(parse(std::string(R"({"input": "Hi", )") + more + "}").ok()) << more;
  }
  for (const char* input : {"3", "[]", "[3]", R"([{"type": "item_reference", "id": "a"}])",
                            R"([{"role": "user"}])", R"([{"role": "king", "content": "a"}])",
                            R"([{"role": "user", "content": [{"type": "input_image"}]}])",
                            R"([{"type": "function_call", "arguments": 3}])"}) {
    EXPECT_FALSE(parse(std::string(R"({"input": )") + input + "}").ok()) << input;
  }
}

AnswerDelta everything() {
  return {{ReasoningDelta{"Hm"}, ContentDelta{"Yes"}, ToolCallBegun{0, "add"},
           ToolCallArguments{0, R"({"a":1})"}, ToolCallFinished{0, "add", json(R"({"a": 1})"), false, ""}},
          {}};
}

const char* kOutput = R"([
  {"id": "rs_abcx0", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}],
   "status": "completed"},
  {"id": "msg_abcx1", "type": "message", "role": "assistant",
   "content": [{"type": "output_text", "text": "Yes", "annotations": []}], "status": "completed"},
  {"id": "fc_abcx2", "type": "function_call", "call_id": "call_abc0x0", "name": "add", "arguments": "{\"a\":1}",
   "status": "completed"}])";

TEST(ResponsesBody, holds_the_items_in_order) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_responses_body(test_info(model));
  EXPECT_EQ(writer->begin(), "");
  EXPECT_EQ(writer->delta(0, everything()), "");
  EXPECT_EQ(writer->finish(0, {}), "");
  const Json body = json(writer->end({10, 8, 5, 3}));
  EXPECT_EQ(body["status"], "completed");
  EXPECT_EQ(body["output"], json(kOutput));
  EXPECT_EQ(body["usage"], json(R"({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 15})"));
}

TEST(ResponsesBody, says_that_it_was_cut_off) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_responses_body(test_info(model));
  (void)writer->delta(0, {{ContentDelta{"Ye"}}, {}});
  (void)writer->finish(0, {FinishReason::kLength, false, ""});
  const Json body = json(writer->end({}));
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(ResponsesStream, builds_what_the_last_event_holds) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_responses_stream(test_info(model));
  std::string stream = writer->begin();
  stream += writer->delta(0, everything());
  stream += writer->finish(0, {});
  stream += writer->end({10, 8, 5, 3});
  const auto values = sse_values(stream);
  std::string types;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i]["sequence_number"], i);
    types += values[i]["type"].get<std::string>().substr(std::string("response.").size()) + " ";
  }
  EXPECT_EQ(types,
            "created in_progress output_item.added reasoning_text.delta reasoning_text.done output_item.done "
            "output_item.added content_part.added output_text.delta output_text.done content_part.done "
            "output_item.done output_item.added function_call_arguments.delta function_call_arguments.done "
            "output_item.done completed ");
  EXPECT_EQ(values.back()["response"]["output"], json(kOutput));
}

}  // namespace
}  // namespace weir::server
