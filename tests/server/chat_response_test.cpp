#include "server/chat_response.h"

#include <gtest/gtest.h>

#include "server_testing.h"

namespace weir::server {
namespace {

AnswerDelta delta_of(std::vector<OutputEvent> events) {
  return {std::move(events), {}};
}

const AnswerDelta kCall =
    delta_of({ToolCallBegun{0, "add"}, ToolCallArguments{0, R"({"a": 1)"}, ToolCallArguments{0, "}"},
              ToolCallFinished{0, "add", json(R"({"a": 1})"), false, "raw"}});

TEST(ChatBody, is_one_object_with_everything) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_chat_body(test_info(model));
  EXPECT_EQ(writer->begin(), "");
  EXPECT_EQ(writer->delta(0, delta_of({ReasoningDelta{"Let me"}, ReasoningDelta{" see"}})), "");
  EXPECT_EQ(writer->delta(0, delta_of({ContentDelta{"4"}})), "");
  EXPECT_EQ(writer->finish(0, {FinishReason::kStop, false, ""}), "");
  EXPECT_EQ(json(writer->end({10, 8, 5, 3})), json(R"({
    "id": "chatcmpl-abc", "object": "chat.completion", "created": 1700000000, "model": "pocket-qwen",
    "system_fingerprint": "weir-0.1.0",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "4", "refusal": null,
                 "reasoning_content": "Let me see"}, "logprobs": null, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
              "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 3}}})"));
}

TEST(ChatBody, holds_calls_with_their_arguments_as_text) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_chat_body(test_info(model));
  (void)writer->delta(0, kCall);
  (void)writer->finish(0, {FinishReason::kStop, true, ""});
  const Json choice = json(writer->end({}))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  EXPECT_EQ(
      choice["message"]["tool_calls"],
      json(
          R"([{"id": "call_abc0x0", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}])"));
}

TEST(ChatBody, reports_logprobs_with_bytes_and_alternatives) {
  const ServedModel model = pocket_qwen();
  const int32_t token = model.tokenizer->encode("7", AddedTokens::kAsText)->at(0);
  const auto writer = make_chat_body(test_info(model));
  Logprobs logprobs{{token, -0.5f}, {{token, -0.5f}}};
  (void)writer->delta(0, {{ContentDelta{"7"}}, {logprobs}});
  (void)writer->finish(0, {});
  EXPECT_EQ(json(writer->end({}))["choices"][0]["logprobs"],
            json(R"({"content": [{"token": "7", "logprob": -0.5, "bytes": [55],
                     "top_logprobs": [{"token": "7", "logprob": -0.5, "bytes": [55]}]}], "refusal": null})"));
}

TEST(ChatStream, begins_with_the_role_and_ends_with_done) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_chat_stream(test_info(model), false);
  std::string stream = writer->begin();
  stream += writer->delta(0, delta_of({ReasoningDelta{"a"}, ContentDelta{"b"}}));
  stream += writer->finish(0, {FinishReason::kLength, false, ""});
  stream += writer->end({1, 0, 2, 1});
  const auto values = sse_values(stream);
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[0],
            json(R"({"id": "chatcmpl-abc", "object": "chat.completion.chunk", "created": 1700000000,
    "model": "pocket-qwen", "system_fingerprint": "weir-0.1.0", "choices": [{"index": 0,
    "delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null}]})"));
  EXPECT_EQ(values[1]["choices"][0]["delta"], json(R"({"reasoning_content": "a"})"));
  EXPECT_EQ(values[2]["choices"][0]["delta"], json(R"({"content": "b"})"));
  EXPECT_EQ(values[3]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(values[3]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(values[4], "[DONE]");
}

TEST(ChatStream, ends_with_the_usage_when_asked) {
  const ServedModel model = pocket_qwen();
  ResponseInfo info = test_info(model);
  info.include_usage = true;
  const auto writer = make_chat_stream(info, false);
  std::string stream = writer->finish(0, {});
  stream += writer->end({10, 8, 5, 3});
  const auto values = sse_values(stream);
  EXPECT_EQ(values[0]["usage"], nullptr);
  const Json& last = values.at(values.size() - 2);
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["usage"]["prompt_tokens_details"]["cached_tokens"], 8);
}

TEST(ChatStream, tells_a_call_in_deltas) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_chat_stream(test_info(model), false);
  const auto values = sse_values(writer->delta(0, kCall));
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[1]["choices"][0]["delta"],
            json(R"({"tool_calls": [{"index": 0, "id": "call_abc0x0", "type": "function",
                     "function": {"name": "add", "arguments": ""}}]})"));
  EXPECT_EQ(values[2]["choices"][0]["delta"],
            json(R"({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\": 1"}}]})"));
}

TEST(ChatStream, shows_the_steps_of_a_canvas_only_when_asked) {
  const ServedModel model = pocket_gemma();
  const std::vector<int32_t> best = {*model.tokenizer->find("a"), *model.tokenizer->find("b")};
  const std::vector<float> confidence = {0.12345f, 1};
  const std::vector<uint8_t> accepted = {0, 1};
  CanvasFrame frame;
  frame.step = 2;
  frame.best = best;
  frame.confidence = confidence;
  frame.accepted = accepted;
  frame.answer_length = 1;
  EXPECT_EQ(make_chat_stream(test_info(model), false)->frame(0, frame), "");
  const std::string event = make_chat_stream(test_info(model), true)->frame(0, frame);
  EXPECT_TRUE(event.starts_with("event: canvas\ndata: "));
  EXPECT_EQ(sse_values(event).at(0), json(R"({"canvas": 0, "step": 2, "last": false, "tokens": ["a", "b"],
    "confidence": [0.123, 1.0], "accepted": [false, true], "answer_length": 1, "rows": 0, "seconds": 0.0, "index": 0})"));
}

}  // namespace
}  // namespace weir::server
