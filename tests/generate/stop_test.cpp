#include "generate/stop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

struct Expected {
  std::string text;  // before the match
  bool matched = false;
  std::string stop;
};

// The match that ends first; of those that end together, the one that starts first.
Expected reference(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& stop : stops) {
      if (stop.size() > end || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (longest == nullptr || stop.size() > longest->size()) longest = &stop;
    }
    if (longest != nullptr) return {text.substr(0, end - longest->size()), true, *longest};
  }
  return {text, false, ""};
}

// Length of the longest end of `text` that begins a stop string without completing it.
size_t must_hold(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string& stop : stops) {
      if (length < stop.size() && stop.starts_with(text.substr(text.size() - length))) return length;
    }
  }
  return 0;
}

std::string random_text(std::mt19937& random, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 2);
  return text;
}

TEST(StopMatcher, AnySplitGivesTheSameTextAndHoldsBackNoMoreThanItMust) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (unsigned i = random() % 4; i > 0; --i) stops.push_back(random_text(random, 1 + random() % 6));
    const std::string text = random_text(random, random() % 24);
    const Expected expected = reference(text, stops);
    StopMatcher matcher(stops);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t length = std::min<size_t>(text.size() - at, random() % 4);
      out += matcher.feed(std::string_view(text).substr(at, length));
      at += length;
      if (matcher.matched()) break;
      ASSERT_EQ(out.size() + must_hold(text.substr(0, at), stops), at) << text;
    }
    out += matcher.finish();
    ASSERT_EQ(out, expected.text) << text;
    ASSERT_EQ(matcher.matched(), expected.matched) << text;
    if (expected.matched) {
      ASSERT_EQ(matcher.stop_string(), expected.stop) << text;
    }
  }
}

TEST(StopMatcher, FindsAStopStringAcrossPieces) {
  StopMatcher matcher({"###", "END"});
  EXPECT_EQ(matcher.feed("an answer #"), "an answer ");
  EXPECT_EQ(matcher.feed("# and #"), "## and ");
  EXPECT_EQ(matcher.feed("##E"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.stop_string(), "###");
  EXPECT_EQ(matcher.feed("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, GivesBackAnUnfinishedStopStringAtTheEnd) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.feed("so it is.\n\nUse"), "so it is.");
  EXPECT_EQ(matcher.finish(), "\n\nUse");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, PassesEverythingThroughWithoutStopStrings) {
  StopMatcher matcher;
  EXPECT_EQ(matcher.feed("text"), "text");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, EmptyStopStringsAreRefused) {
  EXPECT_TRUE(validate_stop_strings({"a", " "}).ok());
  EXPECT_EQ(validate_stop_strings({"a", ""}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir
