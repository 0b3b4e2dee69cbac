#include "cli/suggest.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(Suggest, TheNearestWordIsFound) {
  EXPECT_EQ(nearest("--temprature", {"--top-k", "--temperature", "--threads"}), "--temperature");
  EXPECT_EQ(nearest("rnu", {"run", "chat"}), "run");
  EXPECT_EQ(nearest("cha", {"run", "chat"}), "chat");
}

TEST(Suggest, WhatIsFarFromEverythingHasNoSuggestion) {
  EXPECT_EQ(nearest("frobnicate", {"run", "chat", "inspect"}), "");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace weir::cli
