#include "chat/python_strip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace weir {
namespace {

std::string utf8(uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

// Printed by Python 3.11: [c for c in range(0x110000) if chr(c).isspace()]
constexpr uint32_t kPythonSpaces[] = {0x9,    0xa,    0xb,    0xc,    0xd,    0x1c,   0x1d,   0x1e,
                                      0x1f,   0x20,   0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002,
                                      0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a,
                                      0x2028, 0x2029, 0x202f, 0x205f, 0x3000};

TEST(PythonStrip, RemovesExactlyTheCharactersThatPythonCallsSpace) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const bool space =
        std::find(std::begin(kPythonSpaces), std::end(kPythonSpaces), c) != std::end(kPythonSpaces);
    const std::string inner = std::string("x").append(utf8(c)).append("y");
    const std::string text = utf8(c) + inner + utf8(c);
    ASSERT_EQ(python_strip(text), space ? inner : text) << std::hex << c;
  }
}

TEST(PythonStrip, RemovesRunsAtBothEnds) {
  EXPECT_EQ(python_strip(" \n\u3000\x1C a b\u00a0\u2003\t"), "a b");
  EXPECT_EQ(python_strip(" \u1680\n"), "");
  EXPECT_EQ(python_strip(""), "");
}

TEST(PythonStrip, LeavesInvalidBytesAlone) {
  EXPECT_EQ(python_strip(" \xE2\x80 "), "\xE2\x80");
  EXPECT_EQ(python_strip("\xA0\x85"), "\xA0\x85");
}

}  // namespace
}  // namespace weir
