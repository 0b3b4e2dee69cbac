#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace weir {
namespace {

std::string fresh_path(const char* name) {
  const std::string path = testing::TempDir() + name + std::to_string(::getpid());
  std::filesystem::remove(path);
  return path;
}

// What another process is told that asks for the lock.
Code code_elsewhere(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = FileLock::take(path);
    ::_exit(lock.ok() ? 255 : static_cast<int>(lock.error().code));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<Code>(WEXITSTATUS(status));
}

constexpr Code kGranted = static_cast<Code>(255);

TEST(FileLock, keeps_others_out_until_it_is_gone_and_keeps_what_the_file_holds) {
  const std::string path = fresh_path("lock");
  std::ofstream(path) << "content";
  {
    auto lock = FileLock::take(path);
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(code_elsewhere(path), Code::kBusy);
    const FileLock moved = *std::move(lock);
    EXPECT_EQ(code_elsewhere(path), Code::kBusy);
  }
  EXPECT_EQ(code_elsewhere(path), kGranted);
  EXPECT_EQ(std::filesystem::file_size(path), 7u);
}

TEST(FileLock, a_file_that_cannot_be_written_is_an_error) {
  EXPECT_EQ(FileLock::take("/no/such/folder/file").error().code, Code::kNotFound);
  EXPECT_EQ(FileLock::take(testing::TempDir()).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace weir
