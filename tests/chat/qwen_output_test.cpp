#include "chat/qwen_output.h"

#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weir {
namespace {

std::string read_thinking(std::string_view text, bool cut_off = false) {
  return listed(parse_pieces({text}, {.thinking_open = true, .tools = test_tools()}, cut_off));
}

std::string read_answer(std::string_view text, bool cut_off = false) {
  return listed(parse_pieces({text}, {.thinking_open = false, .tools = test_tools()}, cut_off));
}

// The last call of `text`.
ToolCallFinished call_of(std::string_view text) {
  ToolCallFinished call;
  call.index = -2;
  for (const OutputEvent& event : parse_pieces({text}, {.thinking_open = false, .tools = test_tools()})) {
    if (const auto* finished = std::get_if<ToolCallFinished>(&event)) call = *finished;
  }
  return call;
}

std::string call_with(std::string_view parameters) {
  return "<tool_call>\n<function=f>\n" + std::string(parameters) + "</function>\n</tool_call>";
}

// The value of parameter `key` when the model writes `text` between its tags.
std::string value_of(const std::string& key, const std::string& text) {
  const ToolCallFinished call = call_of(call_with("<parameter=" + key + ">" + text + "</parameter>\n"));
  EXPECT_FALSE(call.malformed);
  EXPECT_TRUE(call.arguments.contains(key)) << text;
  return call.arguments.contains(key) ? python_json(call.arguments[key]) : "missing";
}

TEST(QwenOutput, StartsInsideTheThinkBlock) {
  EXPECT_EQ(read_thinking("so\nit is\n</think>\n\nFour.\n"), "reasoning so\\nit is\ncontent Four.\\n\n");
  EXPECT_EQ(read_thinking("\n</think>\n\nFour."), "content Four.\n");
  EXPECT_EQ(read_thinking("a</think>b"), "reasoning a\ncontent b\n");
  EXPECT_EQ(read_thinking("</think>\n\n    indented"), "content     indented\n");
  EXPECT_EQ(read_thinking("endless"), "reasoning endless\n");
  EXPECT_EQ(read_thinking(""), "");
}

TEST(QwenOutput, IsContentWhenThinkingIsOff) {
  EXPECT_EQ(read_answer("Four.\n\nReally."), "content Four.\\n\\nReally.\n");
  EXPECT_EQ(read_answer("\n\nFour."), "content Four.\n");
  EXPECT_EQ(read_answer("a </think> b"), "content a </think> b\n");
}

TEST(QwenOutput, MayOpenAThinkBlockItself) {
  EXPECT_EQ(read_answer("<think>\nhm\n</think>\n\nFour."), "reasoning hm\ncontent Four.\n");
  EXPECT_EQ(read_thinking("<think>\nhm\n</think>\n\nFour."), "reasoning hm\ncontent Four.\n");
  EXPECT_EQ(read_thinking("a\n</think>\n\n<think>\nb\n</think>\n\nc"), "reasoning ab\ncontent c\n");
  EXPECT_EQ(read_answer("say <think> twice"), "content say <think> twice\n");
  EXPECT_EQ(read_thinking("the <think> tag</think>x"), "reasoning the <think> tag\ncontent x\n");
}

TEST(QwenOutput, EmitsUnchangedWhatOnlyLooksLikeATag) {
  for (const char* text :
       {"<", "<tool", "a <tool_calls> b", "<<tool_cal", "</tool_call>", "<function=f>", "</think",
        "x<y && <t>", "<thinker>", "<tool_call\n>", "</parameter>", "<|im_end|>"}) {
    EXPECT_EQ(read_answer(text), "content " + json_escaped(text) + "\n");
    EXPECT_EQ(read_thinking(text), "reasoning " + json_escaped(text) + "\n");
  }
}

TEST(QwenOutput, HoldsBackNoMoreThanATagOrNewlinesBeforeIt) {
  QwenOutputParser parser({.thinking_open = false, .tools = {}});
  const std::pair<const char*, const char*> steps[] = {
      {"Hello", "content Hello\n"},   {" <", "content  \n"}, {"tool_ca", ""},
      {"st", "content <tool_cast\n"}, {"\n\n", ""},          {"x", "content \\n\\nx\n"},
      {"<b>", "content <b>\n"}};
  for (const auto& [text, expected] : steps) EXPECT_EQ(listed(parser.feed(text)), expected) << text;
  EXPECT_EQ(listed(parser.finish(false)), "");
}

TEST(QwenOutput, ReadsACall) {
  EXPECT_EQ(
      read_thinking("need it\n</think>\n\nLet me look.\n\n<tool_call>\n<function=f>\n<parameter=s>\nParis\n"
                    "</parameter>\n<parameter=i>\n2\n</parameter>\n</function>\n</tool_call>"),
      "reasoning need it\n"
      "content Let me look.\n"
      "begun 0 f\n"
      "arguments 0 {\"s\": \"Paris\", \"i\": 2}\n"
      "finished 0 f {\"s\": \"Paris\", \"i\": 2} "
      "<tool_call>\\n<function=f>\\n<parameter=s>\\nParis\\n</parameter>"
      "\\n<parameter=i>\\n2\\n</parameter>\\n</function>\n");
}

TEST(QwenOutput, ReadsSeveralCalls) {
  EXPECT_EQ(
      read_answer(
          "<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n"
          "</tool_call>\n"),
      "begun 0 f\narguments 0 {}\nfinished 0 f {} <tool_call>\\n<function=f>\\n</function>\n"
      "begun 1 g\narguments 1 {}\nfinished 1 g {} <tool_call>\\n<function=g>\\n</function>\n");
  EXPECT_EQ(read_answer("<tool_call><function=f></function><function=g></function></tool_call>\n\nDone."),
            "begun 0 f\narguments 0 {}\nfinished 0 f {} <tool_call><function=f></function>\n"
            "begun 1 g\narguments 1 {}\nfinished 1 g {} <function=g></function>\n"
            "content Done.\n");
}

TEST(QwenOutput, RemovesExactlyOneNewlineAtEachEndOfAValue) {
  EXPECT_EQ(value_of("s", "\nx\n"), "\"x\"");
  EXPECT_EQ(value_of("s", "x"), "\"x\"");
  EXPECT_EQ(value_of("s", "\n\n\nx\n\n\n"), R"("\n\nx\n\n")");
  EXPECT_EQ(value_of("s", "\n  x \t\n"), R"("  x \t")");
  EXPECT_EQ(value_of("s", "\n\n"), "\"\"");
  EXPECT_EQ(value_of("s", "\n"), "\"\"");
  EXPECT_EQ(value_of("s", ""), "\"\"");
  EXPECT_EQ(value_of("s", "\n\n\n"), R"("\n")");
  EXPECT_EQ(value_of("s", "\r\nx\r\n"), R"("\r\nx\r")");
}

TEST(QwenOutput, TypesValuesByTheSchema) {
  EXPECT_EQ(value_of("s", "\n12\n"), "\"12\"");
  EXPECT_EQ(value_of("s", "\nnull\n"), "\"null\"");
  EXPECT_EQ(value_of("sn", "\nnull\n"), "null");
  EXPECT_EQ(value_of("i", "\n12\n"), "12");
  EXPECT_EQ(value_of("n", "\n1e-5\n"), "1e-05");
  EXPECT_EQ(value_of("b", "\nTrue\n"), "true");
  EXPECT_EQ(value_of("b", "\nno\n"), "false");
  EXPECT_EQ(value_of("o", "\n{\"b\": 1, \"a\": [\"é\"]}\n"), R"({"b": 1, "a": ["é"]})");
  EXPECT_EQ(value_of("a", "\n[1, 2\n"), "\"[1, 2\"");
  EXPECT_EQ(value_of("u", "\n5\n"), "\"5\"");
  EXPECT_EQ(value_of("stranger", "\nnull\n"), "null");
}

TEST(QwenOutput, KeepsMarkupInsideValues) {
  const std::string code = "if (a < b) <parameter=x> </function> </tool> <think></think> \"\\ <";
  EXPECT_EQ(value_of("s", "\n" + code + "\n"), python_json(Json(code)));
}

TEST(QwenOutput, StreamsTextArgumentsAsTheyArrive) {
  QwenOutputParser parser({.thinking_open = false, .tools = test_tools()});
  const std::pair<std::string_view, const char*> steps[] = {
      {"<tool_call>\n<function=f>", "begun 0 f\n"},
      {"\n<parameter=s>", "arguments 0 {\"s\": \"\n"},
      {"\n", ""},
      {"a\"b", "arguments 0 a\\\"b\n"},
      {"\n", ""},
      {"c</para", "arguments 0 \\nc\n"},
      {"\xC3", "arguments 0 </para\n"},
      {"\xA9\n", "arguments 0 é\n"},
      {"</parameter>", "arguments 0 \"\n"},
      {"\n<parameter=i>\n1", "arguments 0 , \"i\": \n"},
      {"2\n</parameter>", "arguments 0 12\n"},
      {"\n</function>",
       "arguments 0 }\nfinished 0 f {\"s\": \"a\\\"b\\nc</paraé\", \"i\": 12} <tool_call>\\n<function=f>\\n"
       "<parameter=s>\\na\\\"b\\nc</paraé\\n</parameter>\\n<parameter=i>\\n12\\n</parameter>\\n</"
       "function>\n"}};
  for (const auto& [text, expected] : steps) EXPECT_EQ(listed(parser.feed(text)), expected) << text;
  EXPECT_EQ(listed(parser.feed("\n</tool_call>")), "");
  EXPECT_EQ(listed(parser.finish(false)), "");
}

TEST(QwenOutput, FindsCallsInsideAThinkBlock) {
  const std::string call = "<tool_call>\n<function=f>\n</function>\n</tool_call>";
  const std::string events =
      "begun 0 f\narguments 0 {}\nfinished 0 f {} <tool_call>\\n<function=f>\\n</function>\n";
  EXPECT_EQ(read_thinking("hm\n" + call), "reasoning hm\n" + events);
  EXPECT_EQ(read_thinking("hm\n" + call + "\nmore\n</think>\n\nok"),
            "reasoning hm\n" + events + "reasoning more\ncontent ok\n");
}

TEST(QwenOutput, LetsThinkingMentionTheTag) {
  EXPECT_EQ(read_thinking("I use <tool_call> here\n</think>\n\nok"),
            "reasoning I use <tool_call> here\ncontent ok\n");
  EXPECT_EQ(read_thinking("I use\n<tool_call>\n\n</think>\n\nok"),
            "reasoning I use\\n<tool_call>\ncontent ok\n");
  EXPECT_EQ(read_thinking("<tool_call>\n<func"), "reasoning <tool_call>\\n<func\n");
  EXPECT_EQ(read_thinking("<tool_call>\n<function=f> goes there\n</think>\n\nok"),
            "begun 0 f\nmalformed 0 f {} <tool_call>\\n<function=f> goes there\\n\ncontent ok\n");
}

TEST(QwenOutput, ToleratesMissingEnds) {
  const std::string want = R"({"s": "x", "i": 1})";
  for (const char* parameters :
       {"<parameter=s>\nx\n<parameter=i>\n1\n</parameter>\n</function>\n</tool_call>",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1\n</function>\n</tool_call>",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1\n</tool_call>",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1\n</parameter>\n</tool_call>",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1\n</parameter>\n</function>",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1\n</parameter>\n",
        "<parameter=s>\nx\n</parameter>\n<parameter=i>\n1"}) {
    const ToolCallFinished call = call_of("<tool_call>\n<function=f>\n" + std::string(parameters));
    EXPECT_FALSE(call.malformed) << parameters;
    EXPECT_EQ(python_json(call.arguments), want) << parameters;
  }
  EXPECT_EQ(read_answer("<tool_call>\n<function=f>\n<tool_call>\n<function=g>\n</function>\nText"),
            "begun 0 f\narguments 0 {}\nfinished 0 f {} <tool_call>\\n<function=f>\\n\n"
            "begun 1 g\narguments 1 {}\nfinished 1 g {} <tool_call>\\n<function=g>\\n</function>\n"
            "content Text\n");
}

TEST(QwenOutput, DoesNotTrustACallThatWasCutOff) {
  EXPECT_EQ(read_answer("<tool_call>\n<function=f>\n<parameter=s>\n/home/me", true),
            "begun 0 f\narguments 0 {\"s\": \"/home/me\n"
            "malformed 0 f {} <tool_call>\\n<function=f>\\n<parameter=s>\\n/home/me\n");
  EXPECT_EQ(
      read_answer("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n", true),
      "begun 0 f\narguments 0 {\"s\": \"x\"\n"
      "malformed 0 f {\"s\": \"x\"} <tool_call>\\n<function=f>\\n<parameter=s>\\nx\\n</parameter>\\n\n");
  EXPECT_EQ(read_answer("<tool_call>\n<function=f>\n</function>\n</tool", true),
            "begun 0 f\narguments 0 {}\nfinished 0 f {} <tool_call>\\n<function=f>\\n</function>\ncontent "
            "</tool\n");
}

TEST(QwenOutput, ReportsMalformedCallsWithTheirText) {
  const std::pair<const char*, const char*> cases[] = {
      {"<tool_call>\n{\"name\": \"f\"}\n</tool_call> after",
       "malformed -1  {} <tool_call>\\n{\\\"name\\\": \\\"f\\\"}\\n</tool_call>\ncontent  after\n"},
      {"<tool_call></tool_call>", "malformed -1  {} <tool_call></tool_call>\n"},
      {"<tool_call>", "malformed -1  {} <tool_call>\n"},
      {"a\n<tool_call> b", "content a\nmalformed -1  {} <tool_call> b\n"},
      {"<tool_call>\n<function=", "malformed -1  {} <tool_call>\\n<function=\n"},
      {"<tool_call>\n<function=>\n</tool_call>",
       "malformed -1  {} <tool_call>\\n<function=>\\n</tool_call>\n"},
      {"<tool_call><function=f\n>", "malformed -1 f {} <tool_call><function=f\\n>\n"},
      {"<tool_call><function=f>\njunk</function></tool_call>",
       "begun 0 f\nmalformed 0 f {} <tool_call><function=f>\\njunk</function></tool_call>\n"},
      {"<tool_call><function=f><parameter=\n1</parameter></function></tool_call>",
       "begun 0 f\nmalformed 0 f {} "
       "<tool_call><function=f><parameter=\\n1</parameter></function></tool_call>\n"},
      {"<tool_call>x<tool_call><function=g></function></tool_call>",
       "malformed -1  {} <tool_call>x\n"
       "begun 0 g\narguments 0 {}\nfinished 0 g {} <tool_call><function=g></function>\n"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(read_answer(text), expected);
}

TEST(QwenOutput, SurvivesInvalidUtf8) {
  EXPECT_EQ(read_answer("a\xFF\xC3"), "content a\xFF\xC3\n");
  const ToolCallFinished call =
      call_of("<tool_call><function=\xFF><parameter=\xC3>\n\xE2\x82\n</parameter></function></tool_call>");
  EXPECT_EQ(call.name, "\uFFFD");
  EXPECT_EQ(python_json(call.arguments), "{\"\uFFFD\": \"\uFFFD\uFFFD\"}");
  EXPECT_EQ(value_of("s", "\n\xE2\x82\n"), "\"\uFFFD\uFFFD\"");
}

TEST(QwenOutput, SurvivesHugeNestingInArguments) {
  const std::string deep(200000, '[');
  EXPECT_EQ(value_of("a", "\n" + deep + "\n"), "\"" + deep + "\"");
}

// Looking at any of this text twice, at each of half a million steps, would run into the time limit.
TEST(QwenOutput, TakesTimeInProportionToTheText) {
  for (const char* unit : {"<", "\n", "<tool_call>", "<tool_call>\n<function=f>\n", "</think><think>", " "}) {
    std::string text = "x<tool_call>";
    while (text.size() < (1u << 19)) text += unit;
    std::vector<std::string_view> bytes;
    for (const char& c : text) bytes.emplace_back(&c, 1);
    const QwenOutputOptions options{.thinking_open = true, .tools = {}};
    EXPECT_TRUE(parse_pieces(bytes, options) == parse_pieces({text}, options)) << unit;
  }
}

}  // namespace
}  // namespace weir
