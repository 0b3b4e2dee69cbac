#include "text/byte_letters.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::text {
namespace {

TEST(ByteLetters, EveryByteHasItsOwnLetter) {
  std::set<std::string_view> letters;
  for (int byte = 0; byte < 256; ++byte) letters.insert(letter_of(static_cast<uint8_t>(byte)));
  EXPECT_EQ(letters.size(), 256u);
  EXPECT_EQ(letter_of('A'), "A");
  EXPECT_EQ(letter_of(' '), "Ġ");
  EXPECT_EQ(letter_of('\n'), "Ċ");
  EXPECT_EQ(letter_of(0xE4), "ä");
  EXPECT_EQ(letter_of(0xAD), "\u0143");
}

TEST(ByteLetters, BytesComeBackFromTheirLetters) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(bytes_of(letters_of(bytes)), bytes);
}

TEST(ByteLetters, TextWithACharacterThatIsNoLetterStandsForItself) {
  EXPECT_EQ(bytes_of("a b"), "a b");
  EXPECT_EQ(bytes_of("Ġ你"), "Ġ你");
  EXPECT_EQ(bytes_of("Ġ\u0144"), "Ġ\u0144");
}

}  // namespace
}  // namespace weir::text
