// Every way that config.json, the index and a set of shards can be wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using testing::bf16_zeros;
using testing::expect_error;
using testing::safetensors;
using testing::TempFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

class HostileFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("config.json", "{}");
    folder_.write("one.safetensors", safetensors({bf16_zeros("a", {2}), bf16_zeros("b", {3})}));
    folder_.write("two.safetensors", safetensors({bf16_zeros("c", {4})}));
  }

  void write_index(const std::string& weight_map) {
    folder_.write(kIndex, R"({"metadata": {"total_size": 18}, "weight_map": )" + weight_map + "}");
  }

  Result<Checkpoint> open() { return Checkpoint::open(folder_.path()); }

  TempFolder folder_;
};

constexpr const char* kGoodMap =
    R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})";

TEST_F(HostileFolder, SoundShardsOpen) {
  write_index(kGoodMap);
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_EQ(checkpoint->total_bytes(), 18u);
}

TEST_F(HostileFolder, IndexOfASingleFileOpens) {
  folder_.write("model.safetensors", safetensors({bf16_zeros("a", {2})}));
  write_index(R"({"a": "model.safetensors"})");
  EXPECT_TRUE(open().ok());
}

TEST_F(HostileFolder, ShardsMayBeLinksIntoACache) {
  const TempFolder blobs;
  blobs.write("0123abcd", safetensors({bf16_zeros("a", {2})}));
  std::filesystem::create_symlink(blobs / "0123abcd", folder_ / "model.safetensors");
  EXPECT_TRUE(open().ok());
}

TEST_F(HostileFolder, MissingFolderIsNotFound) {
  expect_error(Checkpoint::open("no/such/folder"), Code::kNotFound, {"no/such/folder"});
}

TEST_F(HostileFolder, FolderWithoutConfigIsNotFound) {
  std::filesystem::remove(folder_ / "config.json");
  expect_error(open(), Code::kNotFound, {folder_ / "config.json"});
}

TEST_F(HostileFolder, FolderWithoutWeightsIsNotFound) {
  expect_error(open(), Code::kNotFound, {folder_.path(), "model.safetensors"});
}

TEST_F(HostileFolder, ConfigThatIsNotAnObjectIsCorrupt) {
  write_index(kGoodMap);
  for (const char* text : {"", "[]", "3", "{\"a\": ", "\x89PNG"}) {
    folder_.write("config.json", text);
    expect_error(open(), Code::kCorrupt, {folder_ / "config.json"});
  }
}

TEST_F(HostileFolder, DeeplyNestedConfigIsCorrupt) {
  write_index(kGoodMap);
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
  folder_.write("config.json", text);
  expect_error(open(), Code::kCorrupt, {folder_ / "config.json", "64 levels"});
}

TEST_F(HostileFolder, IndexThatIsNotJsonIsCorrupt) {
  folder_.write(kIndex, "{\"weight_map\":");
  expect_error(open(), Code::kCorrupt, {kIndex, "JSON"});
}

TEST_F(HostileFolder, IndexWithoutWeightMapIsCorrupt) {
  folder_.write(kIndex, R"({"metadata": {}})");
  expect_error(open(), Code::kCorrupt, {kIndex, "weight_map"});
}

TEST_F(HostileFolder, EmptyWeightMapIsCorrupt) {
  write_index("{}");
  expect_error(open(), Code::kCorrupt, {kIndex, "empty"});
}

TEST_F(HostileFolder, ShardThatIsNotANameIsCorrupt) {
  write_index(R"({"a": 1})");
  expect_error(open(), Code::kCorrupt, {kIndex, "'a'", "not a string"});
}

TEST_F(HostileFolder, TensorListedTwiceIsCorrupt) {
  write_index(R"({"a": "one.safetensors", "a": "two.safetensors"})");
  expect_error(open(), Code::kCorrupt, {kIndex, "'a'", "twice"});
}

TEST_F(HostileFolder, MissingShardIsNotFound) {
  write_index(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "gone.safetensors"})");
  expect_error(open(), Code::kNotFound, {kIndex, "'gone.safetensors'", "missing"});
}

TEST_F(HostileFolder, ShardOutsideTheFolderIsCorrupt) {
  for (const char* shard : {"../one.safetensors", "/etc/one.safetensors", "sub/one.safetensors", "..", "",
                            ".safetensors", "..\\\\one.safetensors", "one\\u0000.safetensors"}) {
    write_index(R"({"a": ")" + std::string(shard) + "\"}");
    expect_error(open(), Code::kCorrupt, {kIndex, "'a'", "not the plain name"});
  }
}

TEST_F(HostileFolder, IndexThatNamesItselfIsCorrupt) {
  write_index(R"({"a": "model.safetensors.index.json"})");
  expect_error(open(), Code::kCorrupt, {kIndex, "'a'", "not the plain name"});
}

TEST_F(HostileFolder, ShardThatIsAnIndexIsCorrupt) {
  write_index(R"({"a": "loop.safetensors"})");
  std::filesystem::copy_file(folder_ / kIndex, folder_ / "loop.safetensors");
  expect_error(open(), Code::kCorrupt, {"loop.safetensors", "header"});
}

TEST_F(HostileFolder, LinksInACircleAreNotFound) {
  write_index(R"({"a": "x.safetensors"})");
  std::filesystem::create_symlink("y.safetensors", folder_ / "x.safetensors");
  std::filesystem::create_symlink("x.safetensors", folder_ / "y.safetensors");
  expect_error(open(), Code::kNotFound, {"x.safetensors"});
}

TEST_F(HostileFolder, LinkToNothingIsNotFound) {
  std::filesystem::create_symlink("nowhere", folder_ / "model.safetensors");
  expect_error(open(), Code::kNotFound, {"model.safetensors"});
}

TEST_F(HostileFolder, FolderInPlaceOfAShardIsCorrupt) {
  std::filesystem::create_directory(folder_ / "model.safetensors");
  expect_error(open(), Code::kCorrupt, {"model.safetensors"});
}

TEST_F(HostileFolder, TensorThatItsShardLacksIsCorrupt) {
  write_index(
      R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors", "d": "two.safetensors"})");
  expect_error(open(), Code::kCorrupt, {kIndex, "'d'", "'two.safetensors'"});
}

TEST_F(HostileFolder, TensorInAnotherShardThanListedIsCorrupt) {
  write_index(R"({"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})");
  expect_error(open(), Code::kCorrupt, {"one.safetensors", "'b'", kIndex});
}

TEST_F(HostileFolder, TensorThatTheIndexLacksIsCorrupt) {
  write_index(R"({"a": "one.safetensors", "c": "two.safetensors"})");
  expect_error(open(), Code::kCorrupt, {"one.safetensors", "'b'", kIndex});
}

TEST_F(HostileFolder, DamagedShardIsNamed) {
  write_index(kGoodMap);
  std::filesystem::resize_file(folder_ / "two.safetensors",
                               std::filesystem::file_size(folder_ / "two.safetensors") - 1);
  expect_error(open(), Code::kCorrupt, {"two.safetensors", "'c'"});
}

TEST_F(HostileFolder, SameTensorUnderTwoNamesIsCorrupt) {
  folder_.write("model.safetensors", safetensors({bf16_zeros("model.norm.weight", {2}),
                                                  bf16_zeros("language_model.model.norm.weight", {2})}));
  expect_error(open(), Code::kCorrupt, {"'model.norm.weight'", "'language_model.model.norm.weight'"});
}

TEST_F(HostileFolder, ConvolutionsOfTwoLayoutsAreCorrupt) {
  folder_.write("model.safetensors",
                safetensors({bf16_zeros("model.layers.0.linear_attn.conv1d.weight", {8, 1, 4}),
                             bf16_zeros("model.layers.1.linear_attn.conv1d.weight", {8, 4, 1})}));
  expect_error(open(), Code::kCorrupt,
               {"model.layers.1.linear_attn.conv1d.weight", "[8, 4, 1]", "[8, 1, 4]"});
}

TEST_F(HostileFolder, ConvolutionOfAnotherShapeIsCorrupt) {
  folder_.write("model.safetensors",
                safetensors({bf16_zeros("model.layers.0.linear_attn.conv1d.weight", {8, 4})}));
  expect_error(open(), Code::kCorrupt, {"conv1d.weight", "[8, 4]"});
}

// Random damage to a whole small checkpoint must end in success or in a clean error, never in a crash.
TEST_F(HostileFolder, FlippedBytesNeverCrash) {
  const std::string source = "tests/data/qwen-tiny/mlx-mixed/";
  const std::string config = testing::read_file(source + "config.json");
  const std::string weights = testing::read_file(source + "model.safetensors");
  const size_t header_end = 8 + 22151;
  uint64_t state = 42;
  const auto next = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state >> 33) % below);
  };
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged_config = config;
    std::string damaged_weights = weights;
    for (size_t flip = 0; flip < 1 + next(3); ++flip) {
      if (next(3) == 0) damaged_config[next(config.size())] = static_cast<char>(next(256));
      damaged_weights[next(header_end)] ^= static_cast<char>(1 << next(8));
    }
    folder_.write("config.json", damaged_config);
    folder_.write("model.safetensors", damaged_weights);
    auto checkpoint = open();
    if (checkpoint.ok()) {
      const auto matrix = checkpoint->matrix("model.layers.0.linear_attn.in_proj_qkv", 1024, 64);
      const auto norm = checkpoint->values("model.norm.weight", 64);
      if (matrix.ok() && norm.ok() && checkpoint->finish().ok())
        ADD_FAILURE() << "most tensors were not read";
    } else {
      ++refused;
      EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weir
