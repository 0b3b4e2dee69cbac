#include "cli/gsm8k.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::cli {
namespace {

std::string number_in(const std::string& answer) {
  return final_number(answer).value_or("none");
}

TEST(Gsm8k, TheNumberBehindTheMarksCounts) {
  EXPECT_EQ(number_in("7 x 8 = 56.\n#### 56"), "56");
  EXPECT_EQ(number_in("#### 1\n#### 2 of 9"), "2");
  EXPECT_EQ(number_in("#### $1,234.50"), "1234.5");
}

TEST(Gsm8k, WithoutMarksTheLastNumberCounts) {
  EXPECT_EQ(number_in("First 3, then 4. The answer is 12."), "12");
  EXPECT_EQ(number_in("It is -5"), "-5");
  EXPECT_EQ(number_in("That leaves 12-5"), "5");
  EXPECT_EQ(number_in("1,2 and 3,400"), "3400");
  EXPECT_EQ(number_in("no number at all"), "none");
  EXPECT_EQ(number_in("12 apples ####"), "none");
}

TEST(Gsm8k, EqualNumbersHaveEqualText) {
  EXPECT_EQ(normal_number("1,000"), "1000");
  EXPECT_EQ(normal_number("16.00"), "16");
  EXPECT_EQ(normal_number("0.50"), "0.5");
  EXPECT_EQ(normal_number("007"), "7");
  EXPECT_EQ(normal_number("-0"), "0");
  EXPECT_EQ(normal_number("-3.10"), "-3.1");
}

}  // namespace
}  // namespace weir::cli
