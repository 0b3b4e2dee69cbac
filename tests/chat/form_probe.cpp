// What form_test.py asks: reads lines {"tools": [...], "schema": S or null, "calls": "none" | "allowed" |
// "required", "one_call": B, "think": B, "walks": N, "seed": K}, and answers each with {"error": E} or
// {"notes": [...], "answers": [{"complete": B, "reasoning": T, "content": T, "calls": [[name, arguments,
// malformed], ...]}, ...]}: answers of tokens drawn from those that the grammar allows, as the output parser
// reads them.
#include <iostream>
#include <string>
#include <variant>

#include "base/utf8.h"
#include "chat/answer_grammar.h"
#include "grammar/grammar_testing.h"

namespace weir {
namespace {

Json read_answer(const grammar::Walk& walk, bool think, const AnswerForm& form) {
  const auto parser = make_output_parser(ChatLayout::kQwen, think, form.tools, form.schema.has_value());
  Json answer = {{"complete", walk.complete}, {"reasoning", ""}, {"content", ""}, {"calls", Json::array()}};
  auto events = parser->feed(walk.text);
  for (OutputEvent& event : parser->finish(!walk.complete)) events.push_back(std::move(event));
  for (const OutputEvent& event : events) {
    if (const auto* content = std::get_if<ContentDelta>(&event)) {
      answer["content"].get_ref<std::string&>() += content->text;
    } else if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      answer["reasoning"].get_ref<std::string&>() += reasoning->text;
    } else if (const auto* call = std::get_if<ToolCallFinished>(&event)) {
      answer["calls"].push_back({call->name, call->arguments, call->malformed});
    }
  }
  return answer;
}

Json answer(const Json& question) {
  AnswerForm form;
  auto tools = parse_tools(question["tools"]);
  if (!tools.ok()) return {{"error", tools.error().message}};
  form.tools = *std::move(tools);
  if (!question["schema"].is_null()) form.schema = question["schema"];
  form.schema_name = "schema";
  form.one_call = question["one_call"];
  const std::string calls = question["calls"];
  form.calls = calls == "none"      ? AnswerForm::Calls::kNone
               : calls == "allowed" ? AnswerForm::Calls::kAllowed
                                    : AnswerForm::Calls::kRequired;
  const bool think = question["think"];
  std::vector<std::string> notes;
  auto grammar = answer_grammar(ChatLayout::kQwen, form, think, notes);
  if (!grammar.ok()) return {{"error", grammar.error().message}};
  const auto shared = grammar::TokenGrammar::make(*std::move(grammar), grammar::pocket_vocabulary());
  if (!shared.ok()) return {{"error", shared.error().message}};
  Json out = {{"notes", notes}, {"answers", Json::array()}};
  std::mt19937_64 random(question["seed"].get<uint64_t>());
  for (int i = 0; i < question["walks"].get<int>(); ++i) {
    out["answers"].push_back(read_answer(grammar::random_walk(*shared, random, 600), think, form));
  }
  return out;
}

}  // namespace
}  // namespace weir

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const weir::Json out = weir::answer(weir::Json::parse(line));
    std::cout << out.dump(-1, ' ', false, weir::Json::error_handler_t::replace) << std::endl;
  }
}
