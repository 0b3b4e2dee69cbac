#include "cli/progress_bar.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ProgressBar, ShowsBytesRateAndTimeLeft) {
  EXPECT_EQ(progress_line("loading", 25 * kMiB, 100 * kMiB, 5, 200),
            "loading [######                  ]  25%  25.0 MiB of 100.0 MiB  5.0 MiB/s  0:15");
  EXPECT_EQ(progress_line("loading", 100 * kMiB, 100 * kMiB, 5, 200),
            "loading [########################] 100%  100.0 MiB of 100.0 MiB  20.0 MiB/s  0:00");
}

TEST(ProgressBar, IsNoWiderThanTheTerminal) {
  EXPECT_EQ(progress_line("loading", 25 * kMiB, 100 * kMiB, 5, 20), "loading [######     ");
}

TEST(ProgressBar, NothingToDoIsDone) {
  EXPECT_NE(progress_line("loading", 0, 0, 0, 200).find("100%"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
