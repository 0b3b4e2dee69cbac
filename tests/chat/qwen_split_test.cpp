// What the parser finds must not depend on how the text is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chat/chat_testing.h"

namespace weir {
namespace {

const std::vector<std::string> kTexts = {
    "so it is\n\n</think>\n\nFour.\n\nReally.\n",
    "<think>\nhm <tool_call> not yet\n</think>\n\n<think>again</think>x",
    "look\n</think>\n\nLet me.\n\n<tool_call>\n<function=f>\n<parameter=s>\n\né\"\\ < </par\n\n</parameter>\n"
    "<parameter=i>\n-12\n</parameter>\n<parameter=o>\n{\"a\": [1, "
    "\"é\"]}\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=g>\n</function>\n</tool_call>\n",
    "think\n<tool_call>\n<function=f>\n<parameter=s>\nx\n<parameter=b>\nTrue\n</function>\n\nmore</think> ok",
    "\n\n<tool_call>{\"name\": 1}</tool_call>\n<tool_call>\n<function=f>junk</tool_call>tail <tool_cal",
    "</think><tool_call><function=f><parameter=sn>null</parameter><parameter=s>null\n\n<parameter=s>\n</"
    "tool_call>",
    "<tool_call>\n<function=\xC3(\xFF>\n<parameter=s\xE2\x82>\n\xF0\x9F\x98\n\xF0\x9F\x98\x80\xED\xA0\x80\n</"
    "function>",
    "<tool_call>\n<function=f>\n<parameter=s>\nvalue that never ends </parameter",
    "<tool_call>\n<function=f>\n<parameter=s",
    "<<think><tool_call><tool_call></tool_call>\n\n\n</think>\n<",
};

struct Case {
  bool thinking_open = false;
  bool cut_off = false;
};
constexpr Case kCases[] = {{true, false}, {false, false}, {true, true}, {false, true}};

TEST(QwenSplit, DoesNotMatterAtAnyPoint) {
  for (const std::string& text : kTexts) {
    for (const Case& c : kCases) {
      const QwenOutputOptions options{.thinking_open = c.thinking_open, .tools = test_tools()};
      const std::string whole = listed(parse_pieces({text}, options, c.cut_off));
      for (size_t at = 0; at <= text.size(); ++at) {
        const std::string_view all = text;
        ASSERT_EQ(listed(parse_pieces({all.substr(0, at), all.substr(at)}, options, c.cut_off)), whole)
            << text << "\nsplit at " << at;
      }
    }
  }
}

TEST(QwenSplit, DoesNotMatterByteByByte) {
  for (const std::string& text : kTexts) {
    const std::vector<std::string_view> bytes = bytes_of(text);
    for (const Case& c : kCases) {
      const QwenOutputOptions options{.thinking_open = c.thinking_open, .tools = test_tools()};
      ASSERT_EQ(listed(parse_pieces(bytes, options, c.cut_off)),
                listed(parse_pieces({text}, options, c.cut_off)))
          << text;
    }
  }
}

// A random text in which tags, and parts of tags, are common.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kWords = {"<think>",
                                                  "</think>",
                                                  "<tool_call>",
                                                  "</tool_call>",
                                                  "<function=",
                                                  "</function>",
                                                  "<parameter=",
                                                  "</parameter>",
                                                  "f>",
                                                  "s>",
                                                  "sn>",
                                                  "i>",
                                                  "b>",
                                                  "o>",
                                                  "\n",
                                                  "\n\n",
                                                  " ",
                                                  "null",
                                                  "true",
                                                  "12",
                                                  "{\"a\": 1}",
                                                  "<",
                                                  ">",
                                                  "</",
                                                  "\xC3\xA9",
                                                  "\xE2\x82",
                                                  "\xFF",
                                                  "x",
                                                  "<function=f>\n<parameter=s>\n",
                                                  "<tool_call>\n<function=f>\n"};
  std::string text;
  for (size_t n = random() % 24; n > 0; --n) text += kWords[random() % kWords.size()];
  return text;
}

TEST(QwenSplit, DoesNotMatterForRandomTextsAndSplits) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random);
    const Case c = kCases[random() % 4];
    const QwenOutputOptions options{.thinking_open = c.thinking_open, .tools = test_tools()};
    const std::vector<std::string_view> pieces = random_pieces(text, random);
    ASSERT_EQ(listed(parse_pieces(pieces, options, c.cut_off)),
              listed(parse_pieces({text}, options, c.cut_off)))
        << text;
  }
}

TEST(QwenSplit, StreamsExactlyTheArgumentsThatItReports) {
  std::mt19937 random(2);
  int finished_calls = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string text = "<tool_call>\n<function=f>\n<parameter=s>\n" + random_text(random);
    finished_calls += expect_streamed_arguments(
        parse_pieces({text}, {.thinking_open = false, .tools = test_tools()}), text);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(finished_calls, 5000);
}

}  // namespace
}  // namespace weir
