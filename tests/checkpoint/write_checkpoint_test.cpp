// A folder written from a checkpoint holds that checkpoint, bit for bit.
#include "checkpoint/write_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/expect_error.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/synthetic.h"

namespace weir {
namespace {

using testing::TempFolder;

const std::atomic<bool> kGoOn{false};

void expect_same(const Checkpoint& read, const Checkpoint& written) {
  EXPECT_EQ(read.config(), written.config());
  EXPECT_EQ(read.layout(), written.layout());
  const auto left = read.tensors(), right = written.tensors();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i]->name, right[i]->name);
    EXPECT_EQ(left[i]->dtype, right[i]->dtype) << left[i]->name;
    EXPECT_EQ(left[i]->shape, right[i]->shape) << left[i]->name;
    EXPECT_TRUE(
        std::equal(left[i]->data.begin(), left[i]->data.end(), right[i]->data.begin(), right[i]->data.end()))
        << left[i]->name;
  }
}

TEST(WriteCheckpoint, a_pocket_model_is_read_back_as_it_was) {
  for (const char* model : {"models/pocket-qwen", "models/pocket-gemma"}) {
    const TempFolder temp;
    const auto source = Checkpoint::open(model);
    ASSERT_TRUE(source.ok()) << source.error().message;
    const Status written = write_checkpoint(*source, temp / "out", {}, kGoOn);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto read = Checkpoint::open(temp / "out");
    ASSERT_TRUE(read.ok()) << read.error().message;
    expect_same(*read, *source);
  }
}

TEST(WriteCheckpoint, a_synthetic_model_is_on_disk_what_it_is_in_memory) {
  const TempFolder temp;
  const auto source = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b,layers=1");
  ASSERT_TRUE(source.ok());
  const Status written = write_checkpoint(*source, temp / "out", {}, kGoOn);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto read = Checkpoint::open(temp / "out");
  ASSERT_TRUE(read.ok()) << read.error().message;
  expect_same(*read, *source);
}

TEST(WriteCheckpoint, stops_when_asked_to_and_leaves_nothing) {
  const TempFolder temp;
  const auto source = Checkpoint::open("models/pocket-qwen");
  ASSERT_TRUE(source.ok());
  std::atomic<bool> stop{false};
  const auto stop_midway = [&](uint64_t done, uint64_t total) { stop.store(2 * done > total); };
  testing::expect_error(write_checkpoint(*source, temp / "out", stop_midway, stop), Code::kCancelled,
                        {temp / "out"});
  EXPECT_FALSE(std::filesystem::exists(temp / "out"));
}

}  // namespace
}  // namespace weir
