#include "chat/layout.h"

#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weir {
namespace {

std::string prompt_of(ChatLayout layout, bool thinking) {
  const Conversation c{{{.role = Role::kUser, .content = {"U"}}}, {}};
  const Result<Prompt> prompt = render_prompt(layout, c, {.enable_thinking = thinking});
  return prompt.ok() ? flatten(*prompt) : prompt.error().message;
}

std::string answer_of(ChatLayout layout, bool thinking, std::string_view text) {
  const std::unique_ptr<OutputParser> parser = make_output_parser(layout, thinking, test_tools());
  return listed(parse_pieces({text}, *parser, false));
}

TEST(ChatLayouts, AreThoseOfTheirModels) {
  EXPECT_EQ(prompt_of(ChatLayout::kQwen, true),
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n");
  EXPECT_EQ(answer_of(ChatLayout::kQwen, true, "r</think>\n\nA"), "reasoning r\ncontent A\n");
  EXPECT_EQ(answer_of(ChatLayout::kQwen, false, "A</think>"), "content A</think>\n");
  EXPECT_EQ(prompt_of(ChatLayout::kGemma, false),
            "<bos><|turn>user\nU<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
  EXPECT_EQ(answer_of(ChatLayout::kGemma, true, "<|channel>thought\nr<channel|>A<turn|>"),
            "reasoning r\ncontent A\n");
  EXPECT_EQ(answer_of(ChatLayout::kGemma, false, "A"), "content A\n");
}

TEST(ChatLayouts, TypeTheArgumentsOfCalls) {
  EXPECT_NE(
      answer_of(ChatLayout::kGemma, false, "<|tool_call>call:f{s:12}<tool_call|>").find("{\"s\": \"12\"}"),
      std::string::npos);
  EXPECT_NE(answer_of(ChatLayout::kQwen, false,
                      "<tool_call><function=f><parameter=i>12</parameter></function></tool_call>")
                .find("{\"i\": 12}"),
            std::string::npos);
}

}  // namespace
}  // namespace weir
