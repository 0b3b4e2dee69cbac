#include "chat/python_strip.h"

#include <algorithm>
#include <cstddef>

namespace weir {
namespace {

// Whether `c`, the UTF-8 bytes of one character, is U+0009..D, 1C..20, 85, A0, 1680, 2000..200A, 2028, 2029,
// 202F, 205F or 3000.
bool is_space(std::string_view c) {
  if (c.size() == 1) return (c[0] >= '\t' && c[0] <= '\r') || (c[0] >= '\x1c' && c[0] <= ' ');
  if (c.size() == 2) return c == "\xC2\x85" || c == "\xC2\xA0";
  if (c.substr(0, 2) == "\xE2\x80") {
    const auto last = static_cast<unsigned char>(c[2]);
    return (last >= 0x80 && last <= 0x8A) || last == 0xA8 || last == 0xA9 || last == 0xAF;
  }
  return c == "\xE1\x9A\x80" || c == "\xE2\x81\x9F" || c == "\xE3\x80\x80";
}

// Bytes of the white space character that starts (or ends) `text`; 0 when there is none.
size_t space_at_front(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    if (is_space(text.substr(0, n))) return n;
  }
  return 0;
}

size_t space_at_back(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    if (is_space(text.substr(text.size() - n))) return n;
  }
  return 0;
}

}  // namespace

std::string_view python_strip(std::string_view text) {
  while (const size_t n = space_at_front(text)) text.remove_prefix(n);
  while (const size_t n = space_at_back(text)) text.remove_suffix(n);
  return text;
}

}  // namespace weir
