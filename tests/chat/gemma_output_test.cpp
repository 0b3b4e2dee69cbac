#include "chat/gemma_output.h"

#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weir {
namespace {

std::string read(std::string_view text, bool cut_off = false) {
  return listed(parse_gemma({text}, cut_off));
}

// The last call of `text`.
ToolCallFinished call_of(std::string_view text) {
  ToolCallFinished call;
  call.index = -2;
  for (const OutputEvent& event : parse_gemma({text})) {
    if (const auto* finished = std::get_if<ToolCallFinished>(&event)) call = *finished;
  }
  return call;
}

// The arguments as JSON when the model writes `members` between the braces; "malformed" where it may not.
std::string arguments_of(const std::string& members) {
  const ToolCallFinished call = call_of("<|tool_call>call:f{" + members + "}<tool_call|>");
  EXPECT_EQ(call.index, 0) << members;
  return call.malformed ? "malformed" : python_json(call.arguments);
}

TEST(GemmaOutput, IsContentUntilAChannelOpens) {
  EXPECT_EQ(read("Four.\n\nReally.\n"), "content Four.\\n\\nReally.\\n\n");
  EXPECT_EQ(read("\n\n  Four."), "content   Four.\n");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("thought\nFour."), "content thought\\nFour.\n");
}

TEST(GemmaOutput, ReadsTheThinkingChannel) {
  EXPECT_EQ(read("<|channel>thought\nso\nit is\n<channel|>Four."), "reasoning so\\nit is\ncontent Four.\n");
  EXPECT_EQ(read("<|channel>thought\n<channel|>Four."), "content Four.\n");
  EXPECT_EQ(read("<|channel>thought<channel|>\nFour."), "content Four.\n");
  EXPECT_EQ(read("<|channel>thought\nendless\n"), "reasoning endless\\n\n");
  EXPECT_EQ(read("A\n<|channel>thought\nr\n<channel|>\nB"), "content A\nreasoning r\ncontent B\n");
  EXPECT_EQ(read("a<channel|>b"), "content ab\n");
}

TEST(GemmaOutput, TakesOnlyAWholeLineForTheNameOfAChannel) {
  EXPECT_EQ(read("<|channel>thoughtful\n<channel|>x"), "reasoning thoughtful\ncontent x\n");
  EXPECT_EQ(read("<|channel>plan\nr<channel|>x"), "reasoning plan\\nr\ncontent x\n");
  EXPECT_EQ(read("<|channel>though<channel|>x"), "reasoning though\ncontent x\n");
  EXPECT_EQ(read("<|channel>thou"), "");
  EXPECT_EQ(read("<|channel>thought\n<|channel>thought\nr<channel|>x"), "reasoning r\ncontent x\n");
}

TEST(GemmaOutput, EmitsUnchangedWhatOnlyLooksLikeAMarker) {
  for (const char* text :
       {"<", "<|", "<|tool", "a <|tool_calls> b", "<<tool_cal", "<tool_call>", "<|turn>", "<tool_call|>",
        "<|\"|>", "x<y && <t>", "<turn", "<eos", "call:f{}", "<|channel"}) {
    EXPECT_EQ(read(text), "content " + json_escaped(text) + "\n");
  }
}

TEST(GemmaOutput, EndsTheTurnAtEachEndMarker) {
  for (const std::string end : {"<turn|>", "<eos>", "<|tool_response>"}) {
    EXPECT_EQ(read("Four.\n" + end + "\n<|turn>user\nx"), "content Four.\\n\n");
    EXPECT_EQ(read("<|channel>thought\nr" + end + "x<channel|>y"), "reasoning r\n");
    EXPECT_EQ(read("<|channel>" + end + "x"), "");
    EXPECT_EQ(read("<|tool_call>call:f{}<tool_call|>" + end + "response:f{}"),
              "begun 0 f\narguments 0 {}\nfinished 0 f {} <|tool_call>call:f{}<tool_call|>\n");
    EXPECT_EQ(read("<|tool_call>call:f{s:<|\"|>x" + end + "<|\"|>}<tool_call|>"),
              "begun 0 f\narguments 0 {\"s\": \"x\nmalformed 0 f {} <|tool_call>call:f{s:<|\\\"|>x\n");
  }
}

TEST(GemmaOutput, HoldsBackNoMoreThanAMarkerOrNewlinesBeforeIt) {
  GemmaOutputParser parser({});
  const std::pair<const char*, const char*> steps[] = {{"Hello", "content Hello\n"},
                                                       {" <", "content  \n"},
                                                       {"|tool_ca", ""},
                                                       {"st", "content <|tool_cast\n"},
                                                       {"\n\n", ""},
                                                       {"x", "content \\n\\nx\n"},
                                                       {"<b>", "content <b>\n"},
                                                       {"<|channel>", ""},
                                                       {"thou", ""},
                                                       {"gh", ""},
                                                       {"t\nr", "reasoning r\n"},
                                                       {"\n<chan", ""},
                                                       {"nel|>y", "content y\n"}};
  for (const auto& [text, expected] : steps) EXPECT_EQ(listed(parser.feed(text)), expected) << text;
  EXPECT_EQ(listed(parser.finish(false)), "");
}

TEST(GemmaOutput, ReadsACall) {
  EXPECT_EQ(
      read("<|channel>thought\nneed it\n<channel|>Let me look.\n<|tool_call>call:f{s:<|\"|>Paris<|\"|>,i:2}"
           "<tool_call|><|tool_response>"),
      "reasoning need it\ncontent Let me look.\nbegun 0 f\narguments 0 {\"s\": \"Paris\", \"i\": 2}\n"
      "finished 0 f {\"s\": \"Paris\", \"i\": 2} "
      "<|tool_call>call:f{s:<|\\\"|>Paris<|\\\"|>,i:2}<tool_call|>\n");
}

TEST(GemmaOutput, ReadsSeveralCalls) {
  const std::string f = "finished 0 f {} <|tool_call>call:f{}<tool_call|>\n";
  const std::string g =
      "begun 1 g.h-i\narguments 1 {}\nfinished 1 g.h-i {} <|tool_call>call:g.h-i{}<tool_call|>\n";
  EXPECT_EQ(read("<|tool_call>call:f{}<tool_call|><|tool_call>call:g.h-i{}<tool_call|>\n\nDone."),
            "begun 0 f\narguments 0 {}\n" + f + g + "content Done.\n");
  EXPECT_EQ(read("<|tool_call>call:f{}<tool_call|>\n and <|tool_call>call:g.h-i{}<tool_call|>"),
            "begun 0 f\narguments 0 {}\n" + f + "content  and \n" + g);
}

TEST(GemmaOutput, ReadsEveryKindOfValue) {
  EXPECT_EQ(arguments_of(""), "{}");
  EXPECT_EQ(arguments_of("u:<|\"|><|\"|>,b:true,c:false,n:null"),
            R"({"u": "", "b": true, "c": false, "n": null})");
  EXPECT_EQ(arguments_of("u:0,v:-12,w:2.50,x:1e-7,y:18446744073709551615,z:1e+22"),
            R"({"u": 0, "v": -12, "w": 2.5, "x": 1e-07, "y": 18446744073709551615, "z": 1e+22})");
  EXPECT_EQ(arguments_of("u:{},v:[],w:{a:{b:[1,{c:<|\"|>,}]<|\"|>}]},d:[[],[{}]]}"),
            R"({"u": {}, "v": [], "w": {"a": {"b": [1, {"c": ",}]"}]}, "d": [[], [{}]]}})");
  EXPECT_EQ(arguments_of("u:<|\"|>5<|\"|>,i:<|\"|>5<|\"|>,b:<|\"|>true<|\"|>"),
            R"({"u": "5", "i": "5", "b": "true"})");
  EXPECT_EQ(arguments_of("u:<|\"|> a\n\"b\\ {c:d} <|\" é <|\"|>"), R"({"u": " a\n\"b\\ {c:d} <|\" é "})");
  EXPECT_EQ(arguments_of("<|\"|>a:b, c<|\"|>:1,u:{<|\"|><|\"|>:2}"), R"({"a:b, c": 1, "u": {"": 2}})");
  EXPECT_EQ(arguments_of(" u : 1 ,\n v : [ 1 , <|\"|>x<|\"|> ] , w : { } \n"),
            R"({"u": 1, "v": [1, "x"], "w": {}})");
  EXPECT_EQ(arguments_of("u:1,u:2"), R"({"u": 2})");
}

TEST(GemmaOutput, TakesBareTextForTextWithoutItsQuotes) {
  EXPECT_EQ(arguments_of("u:Paris,s:New York ,v:[a b,http://x/y?z],i:x<y"),
            R"({"u": "Paris", "s": "New York", "v": ["a b", "http://x/y?z"], "i": "x<y"})");
  EXPECT_EQ(arguments_of("u:1.2.3,v:0x1F,w:-,x:01,y:1e999,z:+1"),
            R"({"u": "1.2.3", "v": "0x1F", "w": "-", "x": "01", "y": "1e999", "z": "+1"})");
  EXPECT_EQ(arguments_of("u:True,v:None,w:[False]"), R"({"u": true, "v": null, "w": [false]})");
}

TEST(GemmaOutput, AsksTheSchemaWhereALiteralMayBeText) {
  EXPECT_EQ(arguments_of("s:12,sn:12,i:12,n:12,b:12,u:12"),
            R"({"s": "12", "sn": "12", "i": 12, "n": 12, "b": 12, "u": 12})");
  EXPECT_EQ(arguments_of("s:null,sn:null,i:null,u:null"),
            R"({"s": "null", "sn": null, "i": null, "u": null})");
  EXPECT_EQ(arguments_of("s:true,b:true,o:{s:true}"), R"({"s": "true", "b": true, "o": {"s": true}})");
}

TEST(GemmaOutput, StreamsTextArgumentsAsTheyArrive) {
  GemmaOutputParser parser(test_tools());
  const std::pair<std::string_view, const char*> steps[] = {{"<|tool_call>call:f", ""},
                                                            {"{", "begun 0 f\n"},
                                                            {"s", ""},
                                                            {":<|", "arguments 0 {\"s\": \n"},
                                                            {"\"|>", "arguments 0 \"\n"},
                                                            {"a\"b\n", "arguments 0 a\\\"b\\n\n"},
                                                            {"c<|\"", "arguments 0 c\n"},
                                                            {"\xC3", "arguments 0 <|\\\"\n"},
                                                            {"\xA9", "arguments 0 é\n"},
                                                            {"<|\"|>,i:1", "arguments 0 \", \"i\": \n"},
                                                            {"2,a:[<|\"|>x", "arguments 0 12, \"a\": \n"},
                                                            {"<|\"|>]", "arguments 0 [\"x\"]\n"},
                                                            {"}", ""}};
  for (const auto& [text, expected] : steps) EXPECT_EQ(listed(parser.feed(text)), expected) << text;
  EXPECT_EQ(
      listed(parser.feed("<tool_call|>")),
      "arguments 0 }\nfinished 0 f {\"s\": \"a\\\"b\\nc<|\\\"é\", \"i\": 12, \"a\": [\"x\"]} "
      "<|tool_call>call:f{s:<|\\\"|>a\\\"b\\nc<|\\\"é<|\\\"|>,i:12,a:[<|\\\"|>x<|\\\"|>]}<tool_call|>\n");
  EXPECT_EQ(listed(parser.finish(false)), "");
}

TEST(GemmaOutput, ForgivesAMissingEndOfACall) {
  const std::string f = "begun 0 f\narguments 0 {}\nfinished 0 f {} <|tool_call>call:f{}";
  EXPECT_EQ(read("<|tool_call>call:f{}"), f + "\n");
  EXPECT_EQ(read("<|tool_call>call:f{}", true), f + "\n");
  EXPECT_EQ(read("<|tool_call>call:f{}<tool_", true), f + "<tool_\n");
  EXPECT_EQ(read("<|tool_call>call:f{}<turn|>x"), f + "\n");
  EXPECT_EQ(read("<|tool_call>call:f{}\n<|tool_call>call:g{}<tool_call|>"),
            f + "\\n\nbegun 1 g\narguments 1 {}\nfinished 1 g {} <|tool_call>call:g{}<tool_call|>\n");
}

TEST(GemmaOutput, DoesNotTrustACallWithoutItsLastBrace) {
  EXPECT_EQ(
      read("<|tool_call>call:f{s:<|\"|>/home/me"),
      "begun 0 f\narguments 0 {\"s\": \"/home/me\nmalformed 0 f {} <|tool_call>call:f{s:<|\\\"|>/home/me\n");
  EXPECT_EQ(read("<|tool_call>call:f{s:<|\"|>x<|\"|><tool_call|>y"),
            "begun 0 f\narguments 0 {\"s\": \"x\"\n"
            "malformed 0 f {\"s\": \"x\"} <|tool_call>call:f{s:<|\\\"|>x<|\\\"|><tool_call|>\ncontent y\n");
  EXPECT_EQ(read("<|tool_call>call:f{i:1"),
            "begun 0 f\narguments 0 {\"i\": \nmalformed 0 f {} <|tool_call>call:f{i:1\n");
}

TEST(GemmaOutput, ReportsMalformedArguments) {
  for (const char* members : {",",
                              "a",
                              "a:",
                              "a:,b:1",
                              "a:1,",
                              "a:1,,b:2",
                              ":1",
                              "a:1 b:2,",
                              "a:[1,]",
                              "a:[,1]",
                              "a:[1",
                              "a:{b:1",
                              "a:1]",
                              "a:[1}",
                              "a:{1}",
                              "a:{b}",
                              "{a:1}",
                              "a[0]:1",
                              "a:1}",
                              "a:<|\"|>x",
                              "a:<|\"|>x<|\"|>y",
                              "a:x<|\"|>y<|\"|>",
                              "<|\"|>a:1",
                              "a:1}x",
                              "a\n:1"}) {
    EXPECT_EQ(arguments_of(members), "malformed") << members;
  }
}

TEST(GemmaOutput, ReportsMalformedCallsWithTheirText) {
  const std::pair<const char*, const char*> cases[] = {
      {"<|tool_call>{\"name\": \"f\"}<tool_call|> after",
       "malformed -1  {} <|tool_call>{\\\"name\\\": \\\"f\\\"}<tool_call|>\ncontent  after\n"},
      {"<|tool_call><tool_call|>", "malformed -1  {} <|tool_call><tool_call|>\n"},
      {"<|tool_call>", "malformed -1  {} <|tool_call>\n"},
      {"a\n<|tool_call> b", "content a\nmalformed -1  {} <|tool_call> b\n"},
      {"<|tool_call>call:f", "malformed -1  {} <|tool_call>call:f\n"},
      {"<|tool_call>call:{}<tool_call|>", "malformed -1  {} <|tool_call>call:{}<tool_call|>\n"},
      {"<|tool_call>call:f\n{}<tool_call|>", "malformed -1 f {} <|tool_call>call:f\\n{}<tool_call|>\n"},
      {"<|tool_call>call:f{} junk <tool_call|>",
       "begun 0 f\nmalformed 0 f {} <|tool_call>call:f{} junk <tool_call|>\n"},
      {"<|tool_call>x<|tool_call>call:g{}<tool_call|>",
       "malformed -1  {} <|tool_call>x\n"
       "begun 0 g\narguments 0 {}\nfinished 0 g {} <|tool_call>call:g{}<tool_call|>\n"},
      {"<|tool_call>call:f{s:<|\"|>x<|channel>thought\nr<channel|>y",
       "begun 0 f\narguments 0 {\"s\": \"x\nmalformed 0 f {} <|tool_call>call:f{s:<|\\\"|>x\nreasoning "
       "r\ncontent y\n"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(read(text), expected);
}

TEST(GemmaOutput, FindsCallsInsideAChannel) {
  const std::string call = "<|tool_call>call:f{}<tool_call|>";
  const std::string events = "begun 0 f\narguments 0 {}\nfinished 0 f {} " + call + "\n";
  EXPECT_EQ(read("<|channel>thought\nhm\n" + call), "reasoning hm\n" + events);
  EXPECT_EQ(read("<|channel>thought\nhm\n" + call + "\nmore\n<channel|>ok"),
            "reasoning hm\n" + events + "reasoning more\ncontent ok\n");
}

TEST(GemmaOutput, LetsThinkingMentionTheMarker) {
  EXPECT_EQ(read("<|channel>thought\nI use <|tool_call> here\n<channel|>ok"),
            "reasoning I use <|tool_call> here\ncontent ok\n");
  EXPECT_EQ(read("<|channel>thought\n<|tool_call> cal"), "reasoning <|tool_call> cal\n");
  EXPECT_EQ(read("<|channel>thought\n<|tool_call>call:f goes there\n<channel|>ok"),
            "malformed -1 f goes there {} <|tool_call>call:f goes there\\n\ncontent ok\n");
}

TEST(GemmaOutput, SurvivesInvalidUtf8) {
  EXPECT_EQ(read("a\xFF\xC3"), "content a\xFF\xC3\n");
  const ToolCallFinished call =
      call_of("<|tool_call>call:\xFF{\xC3:<|\"|>\xE2\x82<|\"|>,v:[\xF0,{\xED\xA0\x80:1}]}<tool_call|>");
  EXPECT_EQ(call.name, "\uFFFD");
  EXPECT_EQ(python_json(call.arguments),
            "{\"\uFFFD\": \"\uFFFD\uFFFD\", \"v\": [\"\uFFFD\", {\"\uFFFD\uFFFD\uFFFD\": 1}]}");
}

TEST(GemmaOutput, RefusesHugeNestingInArguments) {
  const auto nested = [](size_t depth) { return "u:" + std::string(depth, '[') + std::string(depth, ']'); };
  const ToolCallFinished call = call_of("<|tool_call>call:f{" + nested(kMaxJsonDepth - 1) + "}<tool_call|>");
  EXPECT_FALSE(call.malformed);
  EXPECT_TRUE(check_json(call.arguments, "arguments").ok());
  EXPECT_EQ(arguments_of(nested(kMaxJsonDepth)), "malformed");
  EXPECT_EQ(arguments_of(nested(200000)), "malformed");
}

// Looking at any of this text twice, at each of a hundred thousand steps, would run into the time limit.
TEST(GemmaOutput, TakesTimeInProportionToTheText) {
  for (const char* unit : {"<", "\n", "<|tool_call>", "<|tool_call>call:f{}", "<|channel>", "[", " ", "1,",
                           "<|\"|>,", "<|\"", "x:"}) {
    for (const char* head :
         {"x", "x<|tool_call>", "<|tool_call>call:", "<|tool_call>call:f{a:[", "<|tool_call>call:f{"}) {
      std::string text = head;
      while (text.size() < (1u << 17)) text += unit;
      EXPECT_TRUE(parse_gemma(bytes_of(text)) == parse_gemma({text})) << head << unit;
    }
  }
}

}  // namespace
}  // namespace weir
