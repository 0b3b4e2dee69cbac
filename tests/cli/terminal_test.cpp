#include "cli/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <string>

namespace weir::cli {
namespace {

// Clears the screen, rings, returns, begins a sequence with a C1 control, erases.
const std::string kWritten =
    "a\x1b[2Jb\a\tc\r\nd\xc2\x9b"
    "1me\x7f \xc3\xa9";

TEST(Terminal, what_a_model_writes_moves_no_cursor) {
  int ours = -1, terminal = -1;
  ASSERT_EQ(::openpty(&ours, &terminal, nullptr, nullptr, nullptr), 0);
  std::FILE* stream = ::fdopen(terminal, "w");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(text_for(stream, kWritten), "a?[2Jb?\tc?\nd?1me? \xc3\xa9");
  std::fclose(stream);
  ::close(ours);
}

TEST(Terminal, elsewhere_it_arrives_unchanged) {
  std::FILE* stream = std::tmpfile();
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(text_for(stream, kWritten), kWritten);
  std::fclose(stream);
}

TEST(Terminal, messages_are_one_line) {
  EXPECT_EQ(printable("a\nb\tc\xff"
                      "d\xc2\x85"),
            "a?b?c?d?");
}

}  // namespace
}  // namespace weir::cli
