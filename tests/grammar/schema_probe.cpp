// What jsonschema_test.py asks: reads lines {"schema": S, "texts": [...], "walks": N, "seed": K} and answers
// each with a line {"error": E} or {"takes": [...], "walks": [[text, complete], ...], "seconds": T}.
#include <chrono>
#include <iostream>
#include <string>

#include "base/utf8.h"
#include "grammar_testing.h"

namespace weir::grammar {
namespace {

Json answer(const Json& question) {
  const auto begin = std::chrono::steady_clock::now();
  auto grammar = schema_grammar(question["schema"], "schema");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (!grammar.ok()) return {{"error", grammar.error().message}, {"seconds", seconds.count()}};
  Json out = {{"takes", Json::array()}, {"walks", Json::array()}, {"seconds", seconds.count()}};
  for (const Json& text : question["texts"]) out["takes"].push_back(takes(*grammar, text.get<std::string>()));
  auto shared = TokenGrammar::make(*std::move(grammar), pocket_vocabulary());
  if (!shared.ok()) return {{"error", shared.error().message}};
  std::mt19937_64 random(question["seed"].get<uint64_t>());
  for (int i = 0; i < question["walks"].get<int>(); ++i) {
    const Walk walk = random_walk(*shared, random, 400);
    const std::string text = is_valid_utf8(walk.text) || walk.complete ? walk.text : "";
    out["walks"].push_back({text, walk.complete});
  }
  return out;
}

}  // namespace
}  // namespace weir::grammar

int main() {
  using weir::grammar::Json;
  for (std::string line; std::getline(std::cin, line);) {
    const Json out = weir::grammar::answer(Json::parse(line));
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::strict) << std::endl;
  }
}
