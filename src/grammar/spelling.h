// Characters as bytes: in UTF-8 as they are, or inside a JSON string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/nfa.h"

namespace weir::grammar {

enum class Spelling {
  kRaw,   // UTF-8
  kJson,  // between the quotes of a JSON string, each character in one way: escaped only where it must be
};

struct CodePoints {
  uint32_t first = 0, last = 0;
};

// Ascending and disjoint; surrogates do not count.
using CharacterSet = std::vector<CodePoints>;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

CharacterSet all_characters();
CharacterSet normalized(CharacterSet set);
CharacterSet complement(const CharacterSet& set);

// One character of the set.
int32_t add_character(Nfa& nfa, int32_t from, const CharacterSet& set, Spelling spelling);

// One character of a JSON string in any of its spellings: also \/ and \uXXXX, with pairs of surrogates whole.
int32_t add_json_character(Nfa& nfa, int32_t from);

// `text` (valid UTF-8) as JSON writes it between quotes.
std::string spelled(std::string_view text, Spelling spelling);

}  // namespace weir::grammar
