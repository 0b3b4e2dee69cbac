#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weir::text {
namespace {

using Match = AddedTokenMatcher::Match;

std::optional<Match> find_by_definition(const std::vector<AddedTokenMatcher::Token>& tokens,
                                        std::string_view text, size_t from) {
  for (size_t begin = from; begin < text.size(); ++begin) {
    std::optional<Match> longest;
    for (const auto& token : tokens) {
      if (!text.substr(begin).starts_with(token.content)) continue;
      const size_t end = begin + token.content.size();
      if (!longest || end > longest->end) longest = Match{begin, end, token.id};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

TEST(AddedTokenMatcher, FindsTheLeftmostAndThenTheLongest) {
  const AddedTokenMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"a>bc", 3}, {"\xFF", 4}});
  const auto match = matcher.find("x<a>bc", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->id, 2);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->end, 5u);
  EXPECT_EQ(matcher.find("x<a>bc", 2)->id, 3);
  EXPECT_EQ(matcher.find("x\xFF", 0)->id, 4);
  EXPECT_FALSE(matcher.find("<a", 0));
  EXPECT_FALSE(AddedTokenMatcher().find("<a>", 0));
}

TEST(AddedTokenMatcher, FindsInRandomTextWhatTheDefinitionFinds) {
  std::mt19937 random(5);
  const auto random_text = [&](size_t longest) {
    std::string text(1 + random() % longest, 'a');
    for (char& c : text) c = "ab\xC3"[random() % 3];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedTokenMatcher::Token> tokens;
    for (int32_t id = 0; id < 12; ++id) {
      const std::string content = random_text(6);
      const bool known =
          std::any_of(tokens.begin(), tokens.end(), [&](const auto& t) { return t.content == content; });
      if (!known) tokens.push_back({content, id});
    }
    const AddedTokenMatcher matcher(tokens);
    const std::string text = random_text(40);
    for (size_t from = 0; from <= text.size(); ++from) {
      const auto expected = find_by_definition(tokens, text, from);
      const auto found = matcher.find(text, from);
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (!found) continue;
      EXPECT_EQ(found->begin, expected->begin);
      EXPECT_EQ(found->end, expected->end);
      EXPECT_EQ(found->id, expected->id);
    }
  }
}

}  // namespace
}  // namespace weir::text
