// Regular expressions of JSON Schema's `pattern`, as automata.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/spelling.h"

namespace weir::grammar {

// The texts in which `pattern` is found, as ECMA 262 and Python read it. Known: characters and escapes,
// classes, . \d \w \s and their complements, groups, alternatives, all quantifiers, and the anchors ^ and $
// at the ends of the whole pattern's alternatives. Where the two readings differ (letters and digits beyond
// ASCII), the texts are those that both take. Errors: kUnsupported for everything else, such as look-around,
// back references and \b; kInvalidArgument for what is no pattern.
Result<Automaton> pattern_automaton(std::string_view pattern, Spelling spelling, Work& work);

}  // namespace weir::grammar
