#include "text/byte_letters.h"

#include <array>

namespace weir::text {
namespace {

constexpr int kLetters = 256 + 68;  // letters are code points below this

struct Table {
  std::array<std::string, 256> letters;
  std::array<int, kLetters> bytes;  // by code point; -1 where it stands for no byte
};

bool is_printable_latin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

std::string utf8_below_0x800(int code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3F))};
}

Table make_table() {
  Table t;
  t.bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = is_printable_latin1(byte) ? byte : next++;
    t.letters[static_cast<size_t>(byte)] = utf8_below_0x800(code_point);
    t.bytes[static_cast<size_t>(code_point)] = byte;
  }
  return t;
}

const Table& table() {
  static const Table t = make_table();
  return t;
}

}  // namespace

std::string_view letter_of(uint8_t byte) {
  return table().letters[byte];
}

std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) letters += letter_of(static_cast<uint8_t>(byte));
  return letters;
}

std::string bytes_of(std::string_view letters) {
  std::string bytes;
  for (size_t i = 0; i < letters.size(); ++i) {
    size_t code_point = static_cast<uint8_t>(letters[i]);
    if (code_point >= 0xE0) return std::string(letters);
    if (code_point >= 0x80)
      code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(letters[++i]) & 0x3F);
    if (code_point >= kLetters || table().bytes[code_point] < 0) return std::string(letters);
    bytes += static_cast<char>(table().bytes[code_point]);
  }
  return bytes;
}

}  // namespace weir::text
