// UTF-8, checked byte by byte.
#pragma once

#include <cstddef>
#include <string_view>

namespace weir {

// Length of the longest prefix of `text` that is well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms,
// no surrogates, nothing above U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

// Number of bytes at the end of `text` that may be the start of an unfinished character (0 to 3). Bytes that
// can never become a character do not count.
size_t unfinished_utf8_suffix(std::string_view text);

}  // namespace weir
