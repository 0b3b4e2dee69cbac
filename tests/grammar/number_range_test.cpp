#include "grammar/number_range.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace weir::grammar {
namespace {

bool has_form(const std::string& text, bool whole) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  if (at == begin || (text[begin] == '0' && at > begin + 1)) return false;
  if (at == text.size()) return true;
  if (whole || text[at] != '.' || at + 1 == text.size()) return false;
  return text.find_first_not_of("0123456789", at + 1) == std::string::npos;
}

// Numbers around the bounds, and texts that are none.
std::string random_text(std::mt19937& random) {
  std::string text = random() % 2 == 0 ? "-" : "";
  for (int digits = static_cast<int>(random() % 4); digits >= 0; --digits)
    text += static_cast<char>('0' + random() % 10);
  if (random() % 2 == 0) text += ".";
  for (int digits = static_cast<int>(random() % 4); digits > 0; --digits)
    text += "0123456789500"[random() % 13];
  return text;
}

TEST(NumberRange, NumbersBetweenBoundsAreThoseThatCompareSo) {
  std::mt19937 random(1);
  const double values[] = {0, 1, -1, 10, 12.5, -12.5, 99, 0.25, -0.25, 1.05, 100, -99.9, 1000, 0.001, -5, 7};
  for (int trial = 0; trial < 300; ++trial) {
    NumberRange range;
    range.whole = random() % 2 == 0;
    double least = -1e9, most = 1e9;
    bool above = false, below = false;
    if (random() % 4 != 0) {
      least = values[random() % 16];
      above = random() % 2 == 0;
      range.least = Bound{least, above};
    }
    if (random() % 4 != 0) {
      most = values[random() % 16];
      below = random() % 2 == 0;
      range.most = Bound{most, below};
    }
    Work work;
    const auto automaton = number_automaton(range, work);
    ASSERT_TRUE(automaton.ok());
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_text(random);
      bool expected = has_form(text, range.whole);
      if (expected) {
        const double x = std::stod(text);
        expected = (above ? x > least : x >= least) && (below ? x < most : x <= most);
        // Zero is written without a sign where nothing below zero is admitted.
        if (x == 0 && text[0] == '-' && range.least && least == 0) expected = false;
      }
      EXPECT_EQ(matches(*automaton, text), expected)
          << text << " in " << least << " to " << most << above << below;
    }
  }
}

TEST(NumberRange, NoTextBeyondAFloat64sDigitsIsTakenBesideABound) {
  Work work;
  const auto below = number_automaton({false, {}, Bound{1000, true}}, work);
  ASSERT_TRUE(below.ok());
  EXPECT_TRUE(matches(*below, "999.99"));
  // A reader would make 1000 of it.
  EXPECT_FALSE(matches(*below, "999.9999999999999999"));
}

}  // namespace
}  // namespace weir::grammar
