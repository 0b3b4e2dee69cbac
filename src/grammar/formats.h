// JSON Schema's `format`, as patterns.
#pragma once

#include <string_view>

namespace weir::grammar {

// A pattern of texts that have the format, in the form that programs write: a part of what its RFC allows,
// never more. Empty: not known.
std::string_view format_pattern(std::string_view format);

}  // namespace weir::grammar
