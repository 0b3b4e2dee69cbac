#include "text/quote.h"

#include "base/utf8.h"

namespace weir::text {
namespace {

constexpr size_t kLongest = 60;

void append_escaped(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += "\\x";
    out += kHex[c >> 4];
    out += kHex[c & 15];
  }
}

}  // namespace

std::string printable(std::string_view text) {
  const bool cut = text.size() > kLongest;
  if (cut) {
    text = text.substr(0, kLongest);
    text.remove_suffix(unfinished_utf8_suffix(text));
  }
  std::string out;
  const size_t valid_until = valid_utf8_prefix(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool plain = c >= 0x20 && c != 0x7F && (c < 0x80 || i < valid_until);
    if (plain) {
      out += text[i];
    } else {
      append_escaped(out, c);
    }
  }
  return cut ? out + "…" : out;
}

std::string in_quotes(std::string_view text) {
  return '"' + printable(text) + '"';
}

}  // namespace weir::text
