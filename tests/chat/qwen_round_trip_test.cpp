// What the prompt renderer writes into an assistant's turn, the output parser reads back.
#include <gtest/gtest.h>

#include <random>

#include "chat/chat_testing.h"
#include "chat/qwen_prompt.h"

namespace weir {
namespace {

// The last turn of the conversation as the model would have written it: what follows the opening of its think
// block, up to the end of the turn.
std::string written_turn(const Message& turn) {
  const Conversation c{{{.role = Role::kUser, .content = {"U"}}, turn}, {}};
  const Result<std::string> prompt = render_qwen_prompt(c, {.add_generation_prompt = false});
  EXPECT_TRUE(prompt.ok());
  const std::string opening = "<|im_start|>assistant\n<think>\n", end = "<|im_end|>\n";
  const size_t begin = prompt->find(opening) + opening.size();
  return prompt->substr(begin, prompt->size() - end.size() - begin);
}

Message read_turn(const std::string& text) {
  Message turn{.role = Role::kAssistant};
  std::string content, reasoning;
  for (const OutputEvent& event : parse_pieces({text}, {.thinking_open = true, .tools = test_tools()})) {
    if (const auto* r = std::get_if<ReasoningDelta>(&event)) reasoning += r->text;
    if (const auto* c = std::get_if<ContentDelta>(&event)) content += c->text;
    if (const auto* f = std::get_if<ToolCallFinished>(&event)) {
      EXPECT_FALSE(f->malformed) << f->raw;
      turn.tool_calls.push_back({"", f->name, f->arguments});
    }
  }
  turn.content = content;
  turn.reasoning = reasoning;
  return turn;
}

void expect_round_trip(const Message& turn) {
  const Message read = read_turn(written_turn(turn));
  EXPECT_EQ(read.reasoning, turn.reasoning);
  EXPECT_EQ(read.content.text(), turn.content.text());
  ASSERT_EQ(read.tool_calls.size(), turn.tool_calls.size());
  for (size_t i = 0; i < turn.tool_calls.size(); ++i) {
    EXPECT_EQ(read.tool_calls[i].name, turn.tool_calls[i].name);
    EXPECT_EQ(python_json(read.tool_calls[i].arguments), python_json(turn.tool_calls[i].arguments));
  }
}

// Text in which everything may appear but the tags that end a value.
std::string random_value(std::mt19937& random) {
  static const std::vector<std::string> kWords = {
      "\n", " ",  "\t", "<",  ">",    "</", "é",    "\U0001F600",
      "\"", "\\", "x",  "42", "null", "&",  "</p>", "<tool_response>"};
  std::string text;
  for (size_t n = random() % 12; n > 0; --n) text += kWords[random() % kWords.size()];
  return text;
}

Json random_json(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int>(random() % 2000) - 1000;
    case 3:
      return static_cast<double>(random()) * 1e-6 - 1000.0;
    case 4:
    case 5:
      return random_value(random);
    case 6:
      return Json::array({random_json(random, depth - 1), random_json(random, depth - 1)});
    default:
      return Json{{"k", random_json(random, depth - 1)}, {random_value(random), 1}};
  }
}

Json random_arguments(std::mt19937& random) {
  Json arguments = Json::object();
  if (random() % 2 == 0) arguments["o"] = Json{{"x", random_json(random, 3)}};
  if (random() % 2 == 0) arguments["s"] = random_value(random);
  if (random() % 2 == 0) arguments["i"] = static_cast<int>(random() % 100000) - 50000;
  if (random() % 2 == 0) arguments["n"] = static_cast<double>(random()) * 1e-12;
  if (random() % 2 == 0) arguments["b"] = random() % 2 == 0;
  if (random() % 2 == 0) arguments["a"] = Json::array({random_json(random, 3)});
  if (random() % 2 == 0) arguments["sn"] = random() % 2 == 0 ? Json(nullptr) : Json("text");
  if (random() % 2 == 0) arguments["u"] = nullptr;
  return arguments;
}

TEST(QwenRoundTrip, GivesBackPlainTurns) {
  expect_round_trip({.role = Role::kAssistant, .content = {"Four."}, .reasoning = "two and two"});
  expect_round_trip(
      {.role = Role::kAssistant, .content = {"a\n\nb <x> </tool_call>"}, .reasoning = "r\n\n<tool_call> s"});
  expect_round_trip({.role = Role::kAssistant, .content = {""}, .reasoning = ""});
}

TEST(QwenRoundTrip, GivesBackRandomCalls) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    Message turn{
        .role = Role::kAssistant, .content = {random() % 2 == 0 ? "" : "Let me look."}, .reasoning = "hm"};
    for (size_t n = 1 + random() % 3; n > 0; --n)
      turn.tool_calls.push_back({"", "f", random_arguments(random)});
    expect_round_trip(turn);
  }
}

}  // namespace
}  // namespace weir
