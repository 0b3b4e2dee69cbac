#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::test {
namespace {

std::string encode(uint32_t c) {
  std::string s;
  if (c < 0x80) {
    s += static_cast<char>(c);
  } else if (c < 0x800) {
    s += {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    s += {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
          static_cast<char>(0x80 | (c & 63))};
  } else {
    s += {static_cast<char>(0xF0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 63)),
          static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
  }
  return s;
}

TEST(Utf8, accepts_every_scalar_value_and_no_surrogate) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(is_valid_utf8(encode(c)), !surrogate) << std::hex << c;
  }
  EXPECT_FALSE(is_valid_utf8(encode(0x110000)));
}

TEST(Utf8, finds_where_text_stops_being_valid) {
  EXPECT_EQ(valid_utf8_prefix("abc"), 3u);
  EXPECT_EQ(valid_utf8_prefix("ab\xFFz"), 2u);
  EXPECT_EQ(valid_utf8_prefix("a\xC3"), 1u);
  EXPECT_EQ(valid_utf8_prefix("\xC0\x80"), 0u);      // overlong NUL
  EXPECT_EQ(valid_utf8_prefix("\xE0\x80\xAF"), 0u);  // overlong slash
  EXPECT_EQ(valid_utf8_prefix(""), 0u);
}

TEST(Utf8, knows_the_unfinished_end_of_every_character) {
  for (const uint32_t c : {0xE9u, 0x20ACu, 0xFFFDu, 0x1F600u, 0x10FFFFu}) {
    const std::string whole = encode(c);
    for (size_t cut = 0; cut <= whole.size(); ++cut) {
      const size_t expected = cut == whole.size() ? 0 : cut;
      std::string text = "x";
      text.append(whole, 0, cut);
      EXPECT_EQ(unfinished_utf8_suffix(text), expected);
    }
  }
  EXPECT_EQ(unfinished_utf8_suffix("\xFF"), 0u);
  EXPECT_EQ(unfinished_utf8_suffix("\x80\x80"), 0u);
  EXPECT_EQ(unfinished_utf8_suffix("\xE0\x80"), 0u);  // can never become a character
}

}  // namespace
}  // namespace weir::test
