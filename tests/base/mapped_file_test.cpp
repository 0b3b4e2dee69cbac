#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weir::test {
namespace {

namespace fs = std::filesystem;

// What this process holds of the mapping that begins at `address`, as the kernel tells.
size_t resident_bytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(address) << '-';
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) inside = line.starts_with(begin.str());
    if (inside && line.starts_with("Rss:")) return std::stoul(line.substr(4)) * 1024;
  }
  return 0;
}

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::temp_directory_path() / ("weir_mapped_file_" + std::to_string(::getpid()));
};

TEST_F(MappedFileTest, maps_what_the_file_holds) {
  const std::string text = "some bytes\0with a zero";
  std::ofstream(folder_ / "file") << text;
  auto file = MappedFile::open(folder_ / "file");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const MappedFile moved = std::move(*file);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(moved.bytes().data()), moved.bytes().size()), text);
}

TEST_F(MappedFileTest, what_was_let_go_takes_no_memory_and_is_there_when_read_again) {
  constexpr size_t kPage = 4096, kPages = 64;
  std::string text;
  for (size_t i = 0; i < kPages * kPage; ++i) text.push_back(static_cast<char>('a' + i * 7 % 23));
  std::ofstream(folder_ / "file") << text;
  const auto file = MappedFile::open(folder_ / "file");
  ASSERT_TRUE(file.ok());
  const auto read = [&] {
    return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  };
  EXPECT_EQ(read(), text);
  EXPECT_GE(resident_bytes(file->bytes().data()), kPages * kPage);
  file->let_go();
  EXPECT_EQ(resident_bytes(file->bytes().data()), 0u);
  EXPECT_EQ(read(), text);
}

TEST_F(MappedFileTest, an_empty_file_has_no_bytes) {
  std::ofstream(folder_ / "empty").close();
  const auto file = MappedFile::open(folder_ / "empty");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, refuses_what_is_not_a_file_and_does_not_wait_for_it) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const auto missing = MappedFile::open(folder_ / "nothing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  for (const fs::path& path : {folder_ / "pipe", folder_}) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().code, Code::kCorrupt);
    EXPECT_NE(file.error().message.find(path.string()), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::test
