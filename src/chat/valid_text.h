// Text that may be stored as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// `text` with U+FFFD in place of each byte that is not part of a well-formed UTF-8 character.
std::string valid_text(std::string_view text);

}  // namespace weir
