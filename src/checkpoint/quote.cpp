#include "checkpoint/quote.h"

#include "base/utf8.h"

namespace weir {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 120;
  const bool cut = text.size() > kLongest;
  if (cut) text = text.substr(0, kLongest);
  if (cut) text.remove_suffix(unfinished_utf8_suffix(text));
  std::string quoted = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    quoted += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return quoted + (cut ? "...'" : "'");
}

}  // namespace weir
