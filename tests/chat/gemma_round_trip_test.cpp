// What the prompt renderer writes into an assistant's turn, the output parser reads back.
#include <gtest/gtest.h>

#include <random>

#include "chat/chat_testing.h"
#include "chat/gemma_prompt.h"

namespace weir {
namespace {

// The last turn of the conversation as the model would have written it.
std::string written_turn(const Message& turn) {
  const Conversation c{{{.role = Role::kUser, .content = {"U"}}, turn}, {}};
  const Result<Prompt> prompt = gemma_prompt(c, {.add_generation_prompt = false, .enable_thinking = false});
  EXPECT_TRUE(prompt.ok());
  const std::string opening = "<|turn>model\n", text = flatten(*prompt);
  return text.substr(text.find(opening) + opening.size());
}

Message read_turn(const std::string& text) {
  Message turn{.role = Role::kAssistant};
  std::string content;
  for (const OutputEvent& event : parse_gemma({text})) {
    if (const auto* r = std::get_if<ReasoningDelta>(&event))
      turn.reasoning = turn.reasoning.value_or("") + r->text;
    if (const auto* c = std::get_if<ContentDelta>(&event)) content += c->text;
    if (const auto* f = std::get_if<ToolCallFinished>(&event)) {
      EXPECT_FALSE(f->malformed) << f->raw;
      turn.tool_calls.push_back({"", f->name, f->arguments});
    }
  }
  turn.content = content;
  return turn;
}

// The layout sorts keys, so their order is not compared.
nlohmann::json unordered(const Json& value) {
  return nlohmann::json::parse(python_json(value));
}

void expect_round_trip(const Message& turn) {
  const Message read = read_turn(written_turn(turn));
  EXPECT_EQ(read.reasoning, turn.reasoning);
  EXPECT_EQ(read.content.text(), turn.content.text());
  ASSERT_EQ(read.tool_calls.size(), turn.tool_calls.size());
  for (size_t i = 0; i < turn.tool_calls.size(); ++i) {
    EXPECT_EQ(read.tool_calls[i].name, turn.tool_calls[i].name);
    EXPECT_EQ(unordered(read.tool_calls[i].arguments), unordered(turn.tool_calls[i].arguments));
  }
}

// Text in which everything may appear but markers.
std::string random_value(std::mt19937& random) {
  static const std::vector<std::string> kWords = {
      "\n", " ",    "\t",   "<", ">", "<|", "é", "\U0001F600", "\"", "\\",   "x",
      "42", "null", "true", ",", ":", "{",  "}", "[",          "]",  "<|\"", "<tool_call>"};
  std::string text;
  for (size_t n = random() % 12; n > 0; --n) text += kWords[random() % kWords.size()];
  return text;
}

std::string random_key(std::mt19937& random) {
  static const std::vector<std::string> kKeys = {"s", "i",    "b", "sn", "City", "k 1",
                                                 "é", "null", "5", "<",  "a.b"};
  return kKeys[random() % kKeys.size()];
}

Json random_object(std::mt19937& random, int depth);

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
      return random_object(random, depth - 1);
  }
}

Json random_object(std::mt19937& random, int depth) {
  Json object = Json::object();
  for (size_t n = random() % 4; n > 0; --n) object[random_key(random)] = random_json(random, depth);
  return object;
}

// The schema of f asks for text where a literal might be meant, so calls of g take every value as it is.
TEST(GemmaRoundTrip, GivesBackRandomCalls) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    Message turn{
        .role = Role::kAssistant, .content = {random() % 2 == 0 ? "" : "Let me look."}, .reasoning = "hm"};
    for (size_t n = 1 + random() % 3; n > 0; --n)
      turn.tool_calls.push_back({"", "g", random_object(random, 3)});
    expect_round_trip(turn);
  }
}

TEST(GemmaRoundTrip, GivesBackPlainTurns) {
  expect_round_trip({.role = Role::kAssistant, .content = {"Four."}});
  expect_round_trip({.role = Role::kAssistant, .content = {"a\n\nb <x> <tool_call|>"}});
  expect_round_trip({.role = Role::kAssistant, .tool_calls = {{"", "f", Json{{"s", "12"}, {"i", 12}}}}});
}

}  // namespace
}  // namespace weir
