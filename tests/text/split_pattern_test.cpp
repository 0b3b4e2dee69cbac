#include "text/split_pattern.h"

#include <gtest/gtest.h>

namespace weir::text {
namespace {

constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> pieces_of(std::string_view pattern, std::string_view text) {
  auto split = SplitPattern::compile(pattern);
  EXPECT_TRUE(split.ok()) << pattern;
  std::vector<std::string_view> pieces;
  const Status status = split->split(text, pieces);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return {pieces.begin(), pieces.end()};
}

using Pieces = std::vector<std::string>;

TEST(SplitPattern, CutsTextAsTheReferenceDoes) {
  EXPECT_EQ(pieces_of(kQwen, "it's 42  days\n\n  on"),
            (Pieces{"it", "'s", " ", "4", "2", " ", " days", "\n\n", " ", " on"}));
  EXPECT_EQ(pieces_of(kQwen, "I'D I'ſ"), (Pieces{"I", "'D", " I", "'ſ"}));
  EXPECT_EQ(pieces_of(kQwen, ""), Pieces{});
}

TEST(SplitPattern, KeepsTheTextBetweenMatches) {
  EXPECT_EQ(pieces_of("b+", "abba"), (Pieces{"a", "bb", "a"}));
  EXPECT_EQ(pieces_of("x", "abba"), (Pieces{"abba"}));
}

// PCRE2 counts U+180E as space; Unicode, and with it Oniguruma, does not.
TEST(SplitPattern, WhiteSpaceIsThatOfUnicode) {
  for (const char* space :
       {"\t", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2003", "\u2028", "\u202F", "\u3000"}) {
    EXPECT_EQ(pieces_of(R"(\s)", std::string("a") + space), (Pieces{"a", space}));
    EXPECT_EQ(pieces_of(R"([\sb])", std::string("a") + space), (Pieces{"a", space}));
    EXPECT_EQ(pieces_of(R"(\S)", std::string(space) + "a"), (Pieces{space, "a"}));
  }
  for (const char* other : {"\u180E", "\u200B", "\uFEFF", "\x1C", "a"}) {
    EXPECT_EQ(pieces_of(R"(\s)", std::string("a") + other), (Pieces{std::string("a") + other}));
  }
}

TEST(SplitPattern, WhatOtherEnginesReadDifferentlyIsRefusedByName) {
  for (const char* pattern :
       {R"(\h)",       R"(\K)",     R"(\w+)",  R"(\d)",  R"(\G)",   R"(\C)",   R"(\Q)",
        R"(\R)",       R"(\1)",     R"(\x41)", R"(\)",   R"(\p)",   R"(\pL)",  R"(\p{)",
        R"(\p{Han})",  R"(\p{^L})", "^a",      "a$",     "a.b",     "a{2}",    "a}",
        "[[:alpha:]]", "[a&&b]",    "[]a]",    "[^]a]",  R"([\S])", "(?<n>a)", "(?=a)(?R)",
        "(*UTF)a",     "(?C1)a",    "(?#c)a",  "(?m:a)", "(?i)a"}) {
    const auto split = SplitPattern::compile(pattern);
    ASSERT_FALSE(split.ok()) << pattern;
    EXPECT_EQ(split.error().code, Code::kUnsupported) << pattern;
    EXPECT_NE(split.error().message.find("the split pattern contains \""), std::string::npos)
        << split.error().message;
  }
}

TEST(SplitPattern, APatternThatDoesNotCompileIsRefused) {
  for (const char* pattern : {"(a", "a)", "[a", "*a", "[z-a]", R"(\p{Zz})"}) {
    const auto split = SplitPattern::compile(pattern);
    ASSERT_FALSE(split.ok()) << pattern;
    EXPECT_EQ(split.error().code, Code::kCorrupt) << pattern;
    EXPECT_NE(split.error().message.find("does not compile"), std::string::npos) << split.error().message;
  }
}

TEST(SplitPattern, APatternThatMatchesNothingOrIsHugeIsRefused) {
  for (const std::string& pattern :
       {std::string(""), std::string("a*"), std::string("(?=a)"), std::string(5000, 'a')}) {
    const auto split = SplitPattern::compile(pattern);
    ASSERT_FALSE(split.ok()) << pattern;
    EXPECT_EQ(split.error().code, Code::kUnsupported);
  }
}

// More repetitions of a group than the stack of compiled patterns holds.
TEST(SplitPattern, ALongRunOfAGroupDoesNotFail) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += i % 3 == 0 ? "ab" : "c";
  EXPECT_EQ(pieces_of("(?:ab|c)+", text), Pieces{text});
}

TEST(SplitPattern, APatternThatBacktracksWithoutEndIsAnError) {
  auto split = SplitPattern::compile("(a+)+[bc]");
  ASSERT_TRUE(split.ok());
  std::vector<std::string_view> pieces;
  const Status status = split->split(std::string(100, 'a'), pieces);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace weir::text
