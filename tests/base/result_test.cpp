#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace weir::test {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return Error{Code::kInvalidArgument, std::to_string(x) + " is odd", "pass an even number"};
  return x / 2;
}

Result<int> quarter(int x) {
  WEIR_TRY(const int h, half(x));
  return half(h);
}

Status check_quarter(int x) {
  WEIR_RETURN_IF_ERROR(quarter(x));
  return {};
}

TEST(ResultType, carries_a_value_or_the_first_error) {
  ASSERT_TRUE(quarter(12).ok());
  EXPECT_EQ(*quarter(12), 3);
  ASSERT_FALSE(quarter(6).ok());
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_EQ(check_quarter(7).error().hint, "pass an even number");
}

TEST(ResultType, moves_values_that_cannot_be_copied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto pass = [&]() -> Result<std::unique_ptr<int>> {
    WEIR_TRY(std::unique_ptr<int> p, make());
    return p;
  };
  EXPECT_EQ(**pass(), 5);
}

}  // namespace
}  // namespace weir::test
