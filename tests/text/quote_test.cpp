#include "text/quote.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace weir::text {
namespace {

TEST(Quote, KeepsTextOnOneLine) {
  EXPECT_EQ(in_quotes("a\nb\tc\x01\x7F"), "\"a\\nb\\tc\\x01\\x7f\"");
  EXPECT_EQ(printable("你好"), "你好");
}

TEST(Quote, BytesThatAreNotUtf8AreSpelledOut) {
  EXPECT_EQ(printable("a\xFF"), "a\\xff");
}

TEST(Quote, LongTextIsCutBetweenCharacters) {
  for (size_t lead = 0; lead < 4; ++lead) {
    std::string text(lead, 'a');
    for (int i = 0; i < 100; ++i) text += "你";
    const std::string cut = printable(text);
    EXPECT_TRUE(is_valid_utf8(cut));
    EXPECT_LE(cut.size(), 63u);
    EXPECT_TRUE(cut.ends_with("你…"));
  }
}

}  // namespace
}  // namespace weir::text
