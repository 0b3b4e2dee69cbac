// Texts of a length, of a pattern, and without certain words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/spelling.h"

namespace weir::grammar {

struct TextShape {
  Spelling spelling = Spelling::kJson;
  int64_t least = 0, most = kUnbounded;  // characters
  std::vector<std::string> patterns;     // each is found in it
  std::vector<std::string> avoided;      // words that its spelling does not hold
  std::string before;                    // what stands before it, as far as a word may begin there
};

// Without patterns, JSON strings may be escaped as they like; with one, each character has one spelling.
// Errors: those of pattern_automaton. A length beside a pattern or words costs a state for each character.
Result<Automaton> text_automaton(const TextShape& shape, Work& work);

}  // namespace weir::grammar
