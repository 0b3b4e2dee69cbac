// Python's str.strip(), which the chat layouts apply to every message.
#pragma once

#include <string_view>

namespace weir {

// `text` without the characters at both ends for which Python's str.isspace() holds: Unicode white space and
// U+001C to U+001F.
std::string_view python_strip(std::string_view text);

}  // namespace weir
