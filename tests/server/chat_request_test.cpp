#include "server/chat_request.h"

#include <gtest/gtest.h>

#include "server_testing.h"

namespace weir::server {
namespace {

const std::string kHello = R"("messages": [{"role": "user", "content": "Hi"}])";

Result<AnswerRequest> parse(const std::string& more, const ServedModel& model = pocket_qwen()) {
  return parse_chat_request(json("{" + kHello + (more.empty() ? "" : ", " + more) + "}"), model);
}

std::string refusal(const std::string& more, const ServedModel& model = pocket_qwen()) {
  const auto parsed = parse(more, model);
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(ChatRequest, the_models_defaults_hold_where_nothing_is_said) {
  const auto request = parse("");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generation.sampling.temperature, 0.5f);
  EXPECT_EQ(request->generation.sampling.top_k, 20);
  EXPECT_EQ(request->generation.end_tokens, (std::vector<int32_t>{1355, 1357}));
  EXPECT_EQ(request->generation.max_tokens, 0);
  EXPECT_FALSE(request->generation.top_logprobs);
  EXPECT_FALSE(request->stream);
  EXPECT_EQ(request->choices, 1);
  EXPECT_EQ(prompt_text(*request, pocket_qwen()),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST(ChatRequest, every_sampling_field_arrives) {
  const auto request = parse(
      R"("temperature": 0.25, "top_p": 0.5, "top_k": 7, "min_p": 0.125, "presence_penalty": 1, "frequency_penalty": -1,
         "repetition_penalty": 1.5, "seed": 42, "stop": ["a", "b"], "logit_bias": {"13": -100, "7": 2.5},
         "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 3, "n": 2, "stream": true,
         "stream_options": {"include_usage": true}, "parallel_tool_calls": false)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Sampling& sampling = request->generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.25f);
  EXPECT_EQ(sampling.top_p, 0.5f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.seed, 42u);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{13, -100.f}, {7, 2.5f}}));
  EXPECT_EQ(request->generation.stop_strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->generation.max_tokens, 9);
  EXPECT_EQ(request->generation.top_logprobs, 3);
  EXPECT_EQ(request->choices, 2);
  EXPECT_TRUE(request->stream && request->include_usage && request->one_call);
}

TEST(ChatRequest, seeds_of_64_bits_signed_or_not_are_taken) {
  EXPECT_EQ(parse(R"("seed": 18446744073709551615)")->generation.sampling.seed, UINT64_MAX);
  EXPECT_EQ(parse(R"("seed": -1)")->generation.sampling.seed, UINT64_MAX);
  EXPECT_NE(parse("")->generation.sampling.seed, parse("")->generation.sampling.seed);
}

TEST(ChatRequest, thinking_is_switched_by_either_name) {
  for (const char* off :
       {R"("chat_template_kwargs": {"enable_thinking": false})", R"("reasoning_effort": "none")"}) {
    const auto request = parse(off);
    ASSERT_TRUE(request.ok());
    EXPECT_FALSE(request->prompt_options.enable_thinking);
    EXPECT_TRUE(prompt_text(*request, pocket_qwen()).ends_with("<think>\n\n</think>\n\n"));
  }
  EXPECT_TRUE(parse(R"("reasoning_effort": "high")")->prompt_options.enable_thinking);
}

TEST(ChatRequest, developer_messages_are_system_messages_and_join) {
  const auto request = parse_chat_request(
      json(R"({"messages": [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"},
                            {"role": "user", "content": "Hi"}]})"),
      pocket_qwen());
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(prompt_text(*request, pocket_qwen()).starts_with("<|im_start|>system\nA\n\nB<|im_end|>\n"));
}

const std::string kTool =
    R"("tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])";

TEST(ChatRequest, tools_are_shown_to_the_model_unless_the_choice_is_none) {
  const auto request = parse(kTool);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->conversation.tools.size(), 1u);
  EXPECT_NE(prompt_text(*request, pocket_qwen()).find("\"add\""), std::string::npos);
  const auto none = parse(kTool + R"(, "tool_choice": "none")");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->conversation.tools.empty());
  EXPECT_EQ(prompt_text(*none, pocket_qwen()).find("\"add\""), std::string::npos);
}

TEST(ChatRequest, what_would_change_the_answer_and_is_not_there_is_refused_by_name) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("response_format": {"type": "json_schema", "json_schema": {}})", "response_format"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("functions": [])", "functions"},
      {R"("store": true)", "store"},
      {R"("modalities": ["text", "audio"])", "modalities"},
      {R"("audio": {})", "audio"},
      {R"("guided_json": {})", "guided_json"},
      {R"("unheard_of": 1)", "unheard_of"},
      {R"("chat_template_kwargs": {"enable_thinkin": false})", "chat_template_kwargs.enable_thinkin"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("top_logprobs": 3)", "top_logprobs"},
      {R"("max_tokens": 3, "max_completion_tokens": 4)", "max_tokens"},
      {R"("model": "other")", "other"}};
  for (const auto& [more, name] : kCases) {
    EXPECT_NE(refusal(more).find(name), std::string::npos) << more << ": " << refusal(more);
  }
}

TEST(ChatRequest, harmless_fields_are_accepted) {
  EXPECT_EQ(
      refusal(
          R"("metadata": {"a": "b"}, "user": "me", "store": false, "service_tier": "auto", "model": "gpt-4",
                       "response_format": {"type": "text"}, "modalities": ["text"], "top_logprobs": 0)"),
      "accepted");
}

TEST(ChatRequest, wrong_types_are_refused_everywhere) {
  for (const char* name :
       {"temperature", "top_p", "top_k", "min_p", "seed", "n", "max_tokens", "stop", "logit_bias", "logprobs",
        "stream", "tools", "tool_choice", "parallel_tool_calls", "stream_options", "chat_template_kwargs",
        "reasoning_effort", "response_format", "model"}) {
    for (const char* value : {"[{}]", "\"\\u0000\"", "-1e999", "{\"a\":{}}", "3.5"}) {
      const auto body = parse_json("{" + kHello + ", \"" + name + "\": " + value + "}");
      if (!body.ok()) continue;  // -1e999 is no JSON number
      const auto parsed = parse_chat_request(*body, pocket_qwen());
      if (parsed.ok()) {
        EXPECT_TRUE(std::string(value) == "3.5" || std::string(name) == "stop") << name << " " << value;
      }
    }
  }
}

TEST(ChatRequest, temperature_scales_the_schedule_of_a_diffusion_model) {
  const ServedModel model = pocket_gemma();
  const Denoising own = parse("", model)->generation.denoising.value();
  const auto half = parse(R"("temperature": 0.5)", model);
  ASSERT_TRUE(half.ok());
  EXPECT_FLOAT_EQ(half->generation.denoising->t_max, own.t_max / 2);
  EXPECT_FLOAT_EQ(half->generation.denoising->t_min, own.t_min / 2);
  const auto zero = parse(R"("temperature": 0)", model);
  EXPECT_FLOAT_EQ(zero->generation.denoising->t_max, 0.01f);
}

}  // namespace
}  // namespace weir::server
