#include <gtest/gtest.h>

#include "server/completion_request.h"
#include "server/completion_response.h"
#include "server_testing.h"

namespace weir::server {
namespace {

std::string refusal(const std::string& body) {
  const auto parsed = parse_completion_request(json(body), pocket_qwen());
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(CompletionRequest, a_prompt_is_text_or_ids_once_or_many_times) {
  const auto one = parse_completion_request(json(R"({"prompt": "Hi"})"), pocket_qwen());
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->prompts.size(), 1u);
  EXPECT_EQ(one->generation.max_tokens, 16);
  EXPECT_FALSE(one->chat);
  const auto ids = parse_completion_request(json(R"({"prompt": [5, 6]})"), pocket_qwen());
  EXPECT_EQ(ids->prompts, (std::vector<std::vector<int32_t>>{{5, 6}}));
  const auto many = parse_completion_request(json(R"({"prompt": ["a", [7]], "n": 2})"), pocket_qwen());
  EXPECT_EQ(many->prompts.size(), 2u);
  EXPECT_EQ(many->prompts[1], std::vector<int32_t>{7});
  EXPECT_EQ(many->choices, 2);
}

TEST(CompletionRequest, markers_are_markers_and_gemma_gets_its_first_token) {
  const auto request = parse_completion_request(json(R"({"prompt": "<|im_start|>user"})"), pocket_qwen());
  EXPECT_EQ(request->prompts[0].front(), *pocket_qwen().tokenizer->find("<|im_start|>"));
  for (const char* prompt : {R"({"prompt": "Hi"})", R"({"prompt": "<bos>Hi"})"}) {
    const auto gemma = parse_completion_request(json(prompt), pocket_gemma());
    ASSERT_TRUE(gemma.ok());
    const int32_t bos = *pocket_gemma().tokenizer->find("<bos>");
    EXPECT_EQ(gemma->prompts[0][0], bos);
    EXPECT_NE(gemma->prompts[0][1], bos);
  }
}

TEST(CompletionRequest, what_is_not_there_is_refused_by_name) {
  const std::pair<const char*, const char*> kCases[] = {{R"({})", "prompt"},
                                                        {R"({"prompt": 3})", "prompt"},
                                                        {R"({"prompt": [1, "a"]})", "prompt"},
                                                        {R"({"prompt": [-1]})", "prompt"},
                                                        {R"({"prompt": [1e30]})", "prompt"},
                                                        {R"({"prompt": [[1], 2]})", "prompt"},
                                                        {R"({"prompt": ["a", "b"], "n": 9})", "18 answers"},
                                                        {R"({"prompt": "a", "echo": true})", "echo"},
                                                        {R"({"prompt": "a", "suffix": "b"})", "suffix"},
                                                        {R"({"prompt": "a", "best_of": 3})", "best_of"},
                                                        {R"({"prompt": "a", "messages": []})", "messages"}};
  for (const auto& [body, name] : kCases) {
    EXPECT_NE(refusal(body).find(name), std::string::npos) << body << ": " << refusal(body);
  }
  EXPECT_EQ(refusal(R"({"prompt": "a", "echo": false, "best_of": 1, "user": "u"})"), "accepted");
}

TEST(CompletionBody, has_text_and_the_legacy_logprobs) {
  const ServedModel model = pocket_qwen();
  const int32_t seven = model.tokenizer->encode("7", AddedTokens::kAsText)->at(0);
  const auto writer = make_completion_body(test_info(model));
  (void)writer->delta(0, {{ContentDelta{"77"}}, {{{seven, -0.5f}, {{seven, -0.5f}}}, {{seven, -1.f}, {}}}});
  (void)writer->finish(0, {FinishReason::kLength, false, ""});
  EXPECT_EQ(json(writer->end({3, 0, 2, 0})), json(R"({"id": "cmpl-abc", "object": "text_completion",
    "created": 1700000000, "model": "pocket-qwen", "system_fingerprint": "weir-0.1.0",
    "choices": [{"index": 0, "text": "77", "logprobs": {"tokens": ["7", "7"], "token_logprobs": [-0.5, -1.0],
      "top_logprobs": [{"7": -0.5}, {}], "text_offset": [0, 1]}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
      "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}})"));
}

TEST(CompletionStream, tells_text_then_the_reason_then_done) {
  const ServedModel model = pocket_qwen();
  const auto writer = make_completion_stream(test_info(model));
  std::string stream = writer->delta(0, {{ContentDelta{"a"}}, {}});
  stream += writer->finish(0, {});
  stream += writer->end({});
  const auto values = sse_values(stream);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0]["choices"][0]["text"], "a");
  EXPECT_EQ(values[1]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(values[2], "[DONE]");
}

}  // namespace
}  // namespace weir::server
