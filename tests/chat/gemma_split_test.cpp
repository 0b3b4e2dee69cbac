// What the parser finds must not depend on how the text is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chat/chat_testing.h"

namespace weir {
namespace {

const std::vector<std::string> kTexts = {
    "<|channel>thought\nso it is\n\n<channel|>Four.\n\nReally.\n<turn|>more",
    "<|channel>thought<channel|>\n<|channel>thoughts\nhm <|tool_call> not yet\n<channel|>x<channel|>\ny",
    "Let me.\n\n<|tool_call>call:f{s:<|\"|>\n\né\"\\ <|\" \n<|\"|>,i:-12,o:{a:[1,<|\"|>é<|\"|>]} , u:New "
    "York}"
    "<tool_call|>\n<|tool_call>call:g{}<tool_call|><|tool_response>response:f{",
    "<|channel>thought\nthink\n<|tool_call>call:f{b:True,<|\"|>k<|\"|>:null}<tool_call|>\nmore<channel|> ok",
    "<|tool_call>{\"name\": 1}<tool_call|>\n<|tool_call>call:f{a:1 junk<|\"|>}<tool_call|>tail <|tool_cal",
    "<|tool_call>call:\xC3({\xFF:<|\"|>\xE2\x82\xF0\x9F\x98\xF0\x9F\x98\x80\xED\xA0\x80<|\"|>,s:\xF0\x9F}<"
    "eos>",
    "<|tool_call>call:f{s:<|\"|>text that never ends <|\"",
    "<|tool_call>call:f{s:[1,{k:[",
    "<|tool_call>call:f{} <tool_call",
    "<<|channel><|tool_call><|tool_call><tool_call|>\n\n\n<channel|>\n<",
};

TEST(GemmaSplit, DoesNotMatterAtAnyPoint) {
  for (const std::string& text : kTexts) {
    for (const bool cut_off : {false, true}) {
      const std::string whole = listed(parse_gemma({text}, cut_off));
      for (size_t at = 0; at <= text.size(); ++at) {
        const std::string_view all = text;
        ASSERT_EQ(listed(parse_gemma({all.substr(0, at), all.substr(at)}, cut_off)), whole)
            << text << "\nsplit at " << at;
      }
      ASSERT_EQ(listed(parse_gemma(bytes_of(text), cut_off)), whole) << text;
    }
  }
}

// A random text in which markers, and parts of markers, are common.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kWords = {"<|channel>",
                                                  "<channel|>",
                                                  "<|tool_call>",
                                                  "<tool_call|>",
                                                  "<|\"|>",
                                                  "<|\"|>",
                                                  "<turn|>",
                                                  "call:f{",
                                                  "call:",
                                                  "thought",
                                                  "thought\n",
                                                  "s:",
                                                  "sn:",
                                                  "i:",
                                                  "b:",
                                                  "o:",
                                                  "{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\n",
                                                  " ",
                                                  "null",
                                                  "true",
                                                  "12",
                                                  "-1.5",
                                                  "<",
                                                  "<|",
                                                  "|>",
                                                  "\xC3\xA9",
                                                  "\xE2\x82",
                                                  "\xFF",
                                                  "x",
                                                  "<|tool_call>call:f{s:<|\"|>",
                                                  "<|\"|>}<tool_call|>",
                                                  "}<tool_call|>",
                                                  "<|tool_response>"};
  std::string text;
  for (size_t n = random() % 24; n > 0; --n) text += kWords[random() % kWords.size()];
  return text;
}

TEST(GemmaSplit, DoesNotMatterForRandomTextsAndSplits) {
  std::mt19937 random(1);
  for (int round = 0; round < 40000; ++round) {
    const std::string text = random_text(random);
    const std::vector<std::string_view> pieces = random_pieces(text, random);
    ASSERT_EQ(listed(parse_gemma(pieces)), listed(parse_gemma({text}))) << text;
  }
}

TEST(GemmaSplit, StreamsExactlyTheArgumentsThatItReports) {
  std::mt19937 random(2);
  int finished_calls = 0;
  for (int round = 0; round < 40000; ++round) {
    const std::string text = "<|tool_call>call:f{s:<|\"|>" + random_text(random) + "<|\"|>}<tool_call|>";
    finished_calls += expect_streamed_arguments(parse_gemma({text}), text);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(finished_calls, 5000);
}

}  // namespace
}  // namespace weir
