// Regular expressions of tokenizer files, which are written for Oniguruma, in PCRE2's syntax.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::text {

// Only what means the same in both, or can be made to: literals, classes, \p{..}, \s, \S, groups, (?i:..),
// look-ahead, alternatives, and the quantifiers ? * +. Errors: kUnsupported, naming anything else. Whether
// the pattern is well-formed is left to PCRE2.
Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace weir::text
