// Written weights, taken apart byte by byte and by the reader; and what is left when writing fails.
#include "checkpoint/safetensors_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/expect_error.h"
#include "checkpoint/model_folder.h"

namespace weir {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::expect_error;
using testing::read_file;
using testing::TempFolder;

// 64, 12, 0 and 6 bytes.
std::vector<TensorPlan> small_plan() {
  return {{"a.weight", Dtype::kU32, {2, 8}},
          {"b", Dtype::kF32, {3}},
          {"empty", Dtype::kBf16, {0, 4}},
          {"c", Dtype::kBf16, {3}}};
}

std::string counting(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i + 1);
  return text;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

SafetensorsWriter writer_of(const std::string& folder, uint64_t shard_bytes) {
  auto writer = SafetensorsWriter::create(folder, small_plan(), {}, shard_bytes);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  return *std::move(writer);
}

TEST(SafetensorsWriter, puts_length_header_and_data_where_the_format_has_them) {
  const TempFolder temp;
  SafetensorsWriter writer = writer_of(temp / "model", 1000);
  ASSERT_TRUE(writer.write(bytes_of(counting(82))).ok());
  ASSERT_TRUE(writer.finish().ok());
  const std::string file = read_file(temp / "model/model.safetensors");
  uint64_t length = 0;
  ASSERT_GT(file.size(), sizeof length);
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ((8 + length) % 64, 0u);
  EXPECT_EQ(file.substr(8 + length), counting(82));
  const auto header = nlohmann::json::parse(file.substr(8, length));
  EXPECT_EQ(header, nlohmann::json::parse(R"({"__metadata__": {"format": "mlx"},
      "a.weight": {"dtype": "U32", "shape": [2, 8], "data_offsets": [0, 64]},
      "b": {"dtype": "F32", "shape": [3], "data_offsets": [64, 76]},
      "empty": {"dtype": "BF16", "shape": [0, 4], "data_offsets": [76, 76]},
      "c": {"dtype": "BF16", "shape": [3], "data_offsets": [76, 82]}})"));
}

TEST(SafetensorsWriter, splits_into_shards_that_the_reader_puts_together_again) {
  const TempFolder temp;
  SafetensorsWriter writer = writer_of(temp.path(), 20);  // less than the first tensor has
  const std::string data = counting(82);
  for (size_t begin = 0; begin < data.size(); begin += 7) {
    ASSERT_TRUE(writer.write(bytes_of(data.substr(begin, 7))).ok());
  }
  ASSERT_TRUE(writer.add_file("config.json", "{}").ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(names_in(temp.path()),
            (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"}));
  const auto index = nlohmann::json::parse(read_file(temp / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 82);
  EXPECT_EQ(index["weight_map"]["a.weight"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00002.safetensors");

  const auto checkpoint = Checkpoint::open(temp.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::map<std::string, std::string> read;
  for (const TensorView* t : checkpoint->tensors()) {
    read[t->name] = {reinterpret_cast<const char*>(t->data.data()), t->data.size()};
  }
  const std::map<std::string, std::string> written{
      {"a.weight", data.substr(0, 64)}, {"b", data.substr(64, 12)}, {"empty", ""}, {"c", data.substr(76)}};
  EXPECT_EQ(read, written);
}

TEST(SafetensorsWriter, counts_its_progress_in_bytes_of_all_tensors) {
  const TempFolder temp;
  std::vector<std::pair<uint64_t, uint64_t>> reports;
  auto writer = SafetensorsWriter::create(
      temp.path(), small_plan(), [&](uint64_t done, uint64_t total) { reports.emplace_back(done, total); },
      20);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(bytes_of(counting(82))).ok());
  EXPECT_EQ(reports, (std::vector<std::pair<uint64_t, uint64_t>>{{64, 82}, {82, 82}}));
}

TEST(SafetensorsWriter, nothing_has_its_name_before_the_end_and_nothing_stays_of_what_is_given_up) {
  const TempFolder temp;
  {
    SafetensorsWriter writer = writer_of(temp / "new/model", 20);
    ASSERT_TRUE(writer.write(bytes_of(counting(80))).ok());
    ASSERT_TRUE(writer.add_file("config.json", "{}").ok());
    for (const std::string& name : names_in(temp / "new/model")) EXPECT_TRUE(name.ends_with(".partial"));
    EXPECT_EQ(names_in(temp / "new/model").size(), 3u);
    expect_error(Checkpoint::open(temp / "new/model"), Code::kNotFound, {"config.json"});
  }
  EXPECT_FALSE(fs::exists(temp / "new/model"));
}

TEST(SafetensorsWriter, refuses_a_folder_with_something_in_it_and_leaves_it_as_it_is) {
  const TempFolder temp;
  temp.write("precious", "text");
  expect_error(SafetensorsWriter::create(temp.path(), small_plan()), Code::kInvalidArgument,
               {temp.path(), "not empty"});
  EXPECT_EQ(names_in(temp.path()), std::vector<std::string>{"precious"});
  expect_error(SafetensorsWriter::create(temp / "precious", small_plan()), Code::kInternal, {"precious"});
}

TEST(SafetensorsWriter, refuses_twins_no_bytes_and_more_than_the_disk_holds) {
  const TempFolder temp;
  auto twins = small_plan();
  twins.push_back(twins.front());
  expect_error(SafetensorsWriter::create(temp / "t", twins), Code::kInvalidArgument, {"a.weight"});
  expect_error(SafetensorsWriter::create(temp / "n", {}), Code::kInvalidArgument, {"no weights"});
  expect_error(SafetensorsWriter::create(temp / "h", {{"huge", Dtype::kU8, {int64_t{1} << 50}}}),
               Code::kInternal, {"1125899.91 GB", "free"});
  EXPECT_TRUE(names_in(temp.path()).empty());
}

// A limit on the size of files fails a write in the middle, as a full disk does.
TEST(SafetensorsWriter, a_write_that_fails_is_an_error_and_leaves_nothing) {
  const TempFolder temp;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit tight = before;
  tight.rlim_cur = 1 << 20;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  {
    auto writer = SafetensorsWriter::create(temp / "model", {{"large", Dtype::kU8, {2 << 20}}});
    ASSERT_TRUE(writer.ok());
    expect_error(writer->write(bytes_of(std::string(2 << 20, 'x'))), Code::kInternal,
                 {"model.safetensors", "File too large"});
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(fs::exists(temp / "model"));
}

}  // namespace
}  // namespace weir
