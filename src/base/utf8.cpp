#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace weir {
namespace {

struct Sequence {
  size_t length = 0;          // total bytes the lead announces; 0 for a byte that cannot lead
  uint8_t low = 0, high = 0;  // allowed range of the second byte
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes at the start of `text` that agree with one sequence: its whole length, or fewer if it breaks off.
size_t matching_bytes(std::string_view text, const Sequence& s) {
  const size_t available = std::min(text.size(), s.length);
  for (size_t i = 1; i < available; ++i) {
    const auto b = static_cast<uint8_t>(text[i]);
    const bool fits = i == 1 ? (b >= s.low && b <= s.high) : (b >= 0x80 && b <= 0xBF);
    if (!fits) return i;
  }
  return available;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Sequence s = sequence_of(static_cast<uint8_t>(text[at]));
    if (s.length == 0 || matching_bytes(text.substr(at), s) < s.length) return at;
    at += s.length;
  }
  return at;
}

size_t unfinished_utf8_suffix(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const Sequence s = sequence_of(static_cast<uint8_t>(tail[0]));
    if (s.length > back && matching_bytes(tail, s) == back) return back;
    if (s.length != 0) return 0;
  }
  return 0;
}

}  // namespace weir
