#include "cli/quantity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace weir::cli {
namespace {

int64_t value_of(const std::string& text) {
  const auto parsed = parse_quantity(text);
  return parsed.ok() ? *parsed : -1;
}

TEST(Quantity, UnitsArePowersOf1000Or1024) {
  EXPECT_EQ(value_of("0"), 0);
  EXPECT_EQ(value_of("4096"), 4096);
  EXPECT_EQ(value_of("32k"), 32000);
  EXPECT_EQ(value_of("32K"), 32768);
  EXPECT_EQ(value_of("2Mi"), 2097152);
  EXPECT_EQ(value_of("8GiB"), 8589934592);
  EXPECT_EQ(value_of("8GB"), 8000000000);
  EXPECT_EQ(value_of("7B"), 7);
}

TEST(Quantity, WhatIsNoWholeNumberIsRefused) {
  for (const char* text :
       {"", "k", "-1", "1.5k", " 1", "1 k", "1kk", "0x10", "9223372036854775808", "9223372036854775807k"}) {
    const auto parsed = parse_quantity(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(Quantity, SizesCountsAndTimesAreWrittenForPeople) {
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(10691808), "10.2 MiB");
  EXPECT_EQ(count_text(18788400), "18.8 M");
  EXPECT_EQ(duration_text(125), "2:05");
  EXPECT_EQ(duration_text(3725), "1:02:05");
}

}  // namespace
}  // namespace weir::cli
