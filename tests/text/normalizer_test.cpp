#include "text/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

namespace weir::text {
namespace {

std::string nfc(std::string_view text) {
  auto normalized = normalize(Normalizer::kNfc, text);
  EXPECT_TRUE(normalized.ok());
  return *std::move(normalized);
}

// utf8proc's own way from text to NFC, which orders marks by itself.
std::string nfc_of_utf8proc(const std::string& text) {
  uint8_t* normalized = utf8proc_NFC(reinterpret_cast<const uint8_t*>(text.c_str()));
  std::string copy = reinterpret_cast<const char*>(normalized);
  std::free(normalized);
  return copy;
}

std::string utf8(int32_t code_point) {
  uint8_t bytes[4];
  const auto length = utf8proc_encode_char(code_point, bytes);
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

TEST(Normalizer, ComposesAndOrdersAsUnicodeSays) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");                // Angstrom sign
  EXPECT_EQ(nfc("s\u0307\u0323"), "\u1E69");         // marks in either order
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");    // Hangul
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");          // excluded from composition
  EXPECT_EQ(nfc("\uFB01 \u2460"), "\uFB01 \u2460");  // compatibility characters stay
  EXPECT_EQ(nfc(""), "");
  EXPECT_EQ(nfc(std::string_view("\0\u0301", 3)), std::string_view("\0\u0301", 3));
}

TEST(Normalizer, EveryCharacterBetweenMarksBecomesWhatUtf8procMakesOfIt) {
  for (int32_t c = 1; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = "a\u0323" + utf8(c) + "\u0301\u0327" + utf8(c);
    ASSERT_EQ(nfc(text), nfc_of_utf8proc(text)) << std::hex << c;
  }
}

TEST(Normalizer, RandomMarksBecomeWhatUtf8procMakesOfThem) {
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      text += random() % 4 == 0 ? utf8(static_cast<int32_t>('a' + random() % 26))
                                : utf8(0x300 + static_cast<int32_t>(random() % 0x70));
    }
    ASSERT_EQ(nfc(text), nfc_of_utf8proc(text));
  }
}

TEST(Normalizer, SpacesBecomeLowBlocksAndComeBack) {
  EXPECT_EQ(*normalize(Normalizer::kSpacesToLowBlock, " a  b\te\u0301"), "▁a▁▁b\te\u0301");
  EXPECT_EQ(low_blocks_to_spaces("▁a▁▁b\xE2\x96"), " a  b\xE2\x96");
  EXPECT_EQ(low_blocks_to_spaces(""), "");
}

}  // namespace
}  // namespace weir::text
