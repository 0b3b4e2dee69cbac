// Text from a file, made fit for a one-line error message.
#pragma once

#include <string>
#include <string_view>

namespace weir::text {

// `text` on one line: control characters as \n, \t or \xNN, at most 60 bytes, an ellipsis where it was cut.
std::string printable(std::string_view text);

// printable() between double quotes.
std::string in_quotes(std::string_view text);

}  // namespace weir::text
