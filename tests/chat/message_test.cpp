#include "chat/message.h"

#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weir {
namespace {

Result<Conversation> parsed(const char* messages, const char* tools = "null") {
  return parse_messages(Json::parse(messages), Json::parse(tools));
}

// The message of the error, or a note that there was none.
std::string refusal(const char* messages, const char* tools = "null") {
  const Result<Conversation> conversation = parsed(messages, tools);
  return conversation.ok() ? "accepted" : conversation.error().message;
}

TEST(Messages, AreReadFromOpenAiJson) {
  const Result<Conversation> c =
      parsed(R"([
    {"role": "system", "content": "S"},
    {"role": "user", "content": [{"type": "text", "text": "a "}, {"text": "b"}], "name": "ann"},
    {"role": "assistant", "content": null, "reasoning_content": "R", "refusal": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": [\"x\"]}"}},
      {"function": {"name": "g", "arguments": {"k": null}}},
      {"function": {"name": "h"}}, {"function": {"name": "h", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "T"},
    {"role": "assistant", "reasoning": "R2"}])",
             R"([{"type": "function", "function": {"name": "f"}, "strict": true}])");
  ASSERT_TRUE(c.ok()) << c.error().message;
  ASSERT_EQ(c->messages.size(), 5u);
  EXPECT_EQ(c->messages[0].role, Role::kSystem);
  EXPECT_EQ(c->messages[0].content.text(), "S");
  EXPECT_FALSE(c->messages[0].content.is_list);
  EXPECT_EQ(c->messages[1].content.items, (std::vector<std::string>{"a ", "b"}));
  EXPECT_TRUE(c->messages[1].content.is_list);
  EXPECT_EQ(c->messages[1].content.text(), "a b");
  const Message& assistant = c->messages[2];
  EXPECT_TRUE(assistant.content.items.empty());
  EXPECT_EQ(assistant.reasoning, "R");
  ASSERT_EQ(assistant.tool_calls.size(), 4u);
  EXPECT_EQ(assistant.tool_calls[0].id, "c1");
  EXPECT_EQ(assistant.tool_calls[0].name, "f");
  EXPECT_EQ(python_json(assistant.tool_calls[0].arguments), R"({"z": 1, "a": ["x"]})");
  EXPECT_EQ(python_json(assistant.tool_calls[1].arguments), R"({"k": null})");
  EXPECT_EQ(python_json(assistant.tool_calls[2].arguments), "{}");
  EXPECT_EQ(python_json(assistant.tool_calls[3].arguments), "{}");
  EXPECT_EQ(c->messages[3].role, Role::kTool);
  EXPECT_EQ(c->messages[3].tool_call_id, "c1");
  EXPECT_EQ(c->messages[4].reasoning, "R2");
  ASSERT_EQ(c->tools.size(), 1u);
  EXPECT_EQ(c->tools[0].name, "f");
  EXPECT_EQ(python_json(c->tools[0].definition),
            R"({"type": "function", "function": {"name": "f"}, "strict": true})");
}

TEST(Messages, AreRefusedWithTheNameOfTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "messages is an object: expected an array."},
      {"[]", "messages is empty: expected at least one."},
      {"[1]", "messages[0] is 1: expected an object."},
      {R"([{"content": "x"}])", "messages[0].role is null: expected a string."},
      {R"([{"role": "user", "content": "x"}, {"role": "function", "content": "x"}])",
       "messages[1].role is \"function\": expected system, user, assistant or tool."},
      {R"([{"role": "user"}])", "messages[0].content is missing."},
      {R"([{"role": "user", "content": 5}])",
       "messages[0].content is 5: expected a string, null or a list of text items."},
      {R"([{"role": "user", "content": {"text": "x"}}])",
       "messages[0].content is an object: expected a string, null or a list of text items."},
      {R"([{"role": "user", "content": ["x"]}])",
       "messages[0].content[0] is \"x\": expected an object with type and text."},
      {R"([{"role": "user", "content": [{"type": "text"}]}])",
       "messages[0].content[0].text is null: expected a string."},
      {R"([{"role": "user", "content": [{"type": "file", "file": {}}]}])",
       "messages[0].content[0].type is \"file\": expected \"text\"."},
      {R"([{"role": "user", "content": "x", "tool_calls": [{}]}])",
       "messages[0].tool_calls is only allowed in an assistant message."},
      {R"([{"role": "user", "content": "x", "reasoning_content": "r"}])",
       "messages[0].reasoning_content is only allowed in an assistant message."},
      {R"([{"role": "assistant", "reasoning_content": 1}])",
       "messages[0].reasoning_content is 1: expected a string."},
      {R"([{"role": "assistant", "tool_calls": {}}])",
       "messages[0].tool_calls is an object: expected an array."},
      {R"([{"role": "assistant", "tool_calls": ["f"]}])",
       "messages[0].tool_calls[0] is \"f\": expected an object."},
      {R"([{"role": "assistant", "tool_calls": [{"type": "custom"}]}])",
       "messages[0].tool_calls[0].type is \"custom\": expected \"function\"."},
      {R"([{"role": "assistant", "tool_calls": [{"name": "f"}]}])",
       "messages[0].tool_calls[0].function is null: expected an object."},
      {R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])",
       "messages[0].tool_calls[0].function.name is null: expected a string."},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}])",
       "messages[0].tool_calls[0].function.name is empty."},
      {R"([{"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].id is 1: expected a string."},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}])",
       "messages[0].tool_calls[0].function.arguments is an array: expected an object or the JSON text of "
       "one."},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}])",
       "messages[0].tool_calls[0].function.arguments is an array: expected an object or the JSON text of "
       "one."},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\""}}]}])",
       "messages[0].tool_calls[0].function.arguments cannot be read. The text is not valid JSON: the first "
       "error is "
       "at byte 5."},
      {R"([{"role": "tool", "content": "x", "tool_call_id": 3}])",
       "messages[0].tool_call_id is 3: expected a string."},
  };
  for (const auto& [messages, message] : cases) EXPECT_EQ(refusal(messages), message) << messages;
}

TEST(Messages, WithAnythingButTextAreUnsupported) {
  for (const char* item : {R"({"type": "image_url", "image_url": {"url": "data:"}})", R"({"image": "x"})",
                           R"({"type": "input_audio"})", R"({"type": "video"})"}) {
    const Result<Conversation> c = parsed(
        (R"([{"role": "user", "content": [{"type": "text", "text": "x"}, )" + std::string(item) + "]}]")
            .c_str());
    ASSERT_FALSE(c.ok()) << item;
    EXPECT_EQ(c.error().code, Code::kUnsupported);
    EXPECT_EQ(c.error().message.substr(0, 30), "messages[0].content[1] is of t");
  }
}

TEST(Messages, OfADeveloperAreRefusedWithAHint) {
  const Result<Conversation> c = parsed(R"([{"role": "developer", "content": "x"}])");
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().hint, "Send instructions for the model as a system message.");
}

TEST(Messages, WithInvalidUtf8OrEndlessNestingAreRefused) {
  Json messages = Json::parse(R"([{"role": "user", "content": ""}])");
  messages[0]["content"] = "a\xFF";
  EXPECT_FALSE(parse_messages(messages).ok());
  messages[0]["content"] = "a";
  EXPECT_TRUE(parse_messages(messages).ok());

  Json deep = Json::array();
  for (int i = 0; i < 300; ++i) deep = Json::array({std::move(deep)});
  messages.push_back(Json::parse(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})"));
  messages[1]["tool_calls"][0]["function"]["arguments"]["a"] = deep;
  EXPECT_FALSE(parse_messages(messages).ok());
  messages[1]["tool_calls"][0]["function"]["arguments"] = "{\"a\": " + std::string(100000, '[');
  EXPECT_FALSE(parse_messages(messages).ok());
}

TEST(Tools, AreRefusedWithTheNameOfTheField) {
  const char* hello = R"([{"role": "user", "content": "x"}])";
  EXPECT_EQ(refusal(hello, "[]"), "accepted");
  EXPECT_EQ(refusal(hello, R"([{"function": {"name": "f"}}])"), "accepted");
  EXPECT_EQ(refusal(hello, "{}"), "tools is an object: expected an array.");
  EXPECT_EQ(refusal(hello, "[1]"), "tools[0] is 1: expected an object.");
  EXPECT_EQ(refusal(hello, R"([{"type": "web_search"}])"),
            "tools[0].type is \"web_search\": expected \"function\".");
  EXPECT_EQ(refusal(hello, R"([{"type": "function"}])"), "tools[0].function is null: expected an object.");
  EXPECT_EQ(refusal(hello, R"([{"function": {"name": 1}}])"),
            "tools[0].function.name is 1: expected a string.");
  EXPECT_EQ(refusal(hello, R"([{"function": {"name": ""}}])"), "tools[0].function.name is empty.");
}

}  // namespace
}  // namespace weir
