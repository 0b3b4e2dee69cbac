// Names that come from files, made safe for a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// `text` in single quotes, control characters replaced by '?', cut with "..." after 120 bytes at a character
// boundary.
std::string quote(std::string_view text);

}  // namespace weir
