// The real checkpoint layouts.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/names.h"
#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using testing::bf16_zeros;
using testing::expect_error;
using testing::safetensors;
using testing::TempFolder;

Checkpoint open(const std::string& folder) {
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) {
    ADD_FAILURE() << checkpoint.error().message;
    std::abort();
  }
  return std::move(*checkpoint);
}

// Reads every tensor that is not skipped, taking a matrix's columns from config.json's bits, and checks that
// none is left.
void read_all(Checkpoint& checkpoint) {
  const auto& section = checkpoint.quantization();
  std::vector<std::string> names;
  for (const TensorView* tensor : checkpoint.tensors()) {
    if (!is_vision_or_mtp(tensor->name)) names.push_back(tensor->name);
  }
  for (const TensorView* tensor : checkpoint.tensors()) {
    const std::string name = canonical_name(tensor->name);
    if (is_vision_or_mtp(tensor->name) || name.ends_with(".scales") || name.ends_with(".biases")) continue;
    if (tensor->dtype != Dtype::kU32 && tensor->shape.size() != 2) {
      const auto values = checkpoint.values(name, tensor->elements());
      EXPECT_TRUE(values.ok()) << values.error().message;
      continue;
    }
    const std::string module = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
    const QuantizationRule* rule = section.find(module);
    if (rule == nullptr && section.present()) rule = &*section.defaults();
    const int64_t width = tensor->shape.back();
    const int64_t cols = tensor->dtype == Dtype::kU32 ? width * 32 / *rule->bits : width;
    const auto matrix = checkpoint.matrix(module, tensor->elements() / width, cols);
    EXPECT_TRUE(matrix.ok()) << matrix.error().message;
  }
  const auto done = checkpoint.finish();
  EXPECT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(checkpoint.notes().empty());
}

TEST(Checkpoint, HuggingFaceLayoutIsReadCompletely) {
  auto checkpoint = open("tests/data/qwen-tiny/hf");
  EXPECT_EQ(checkpoint.layout(), Layout::kHuggingFace);
  EXPECT_TRUE(checkpoint.norms_are_zero_centred());
  EXPECT_EQ(checkpoint.tensors().size(), 85u);
  EXPECT_EQ(checkpoint.skipped().tensors, 13);  // 6 of vision, 7 of multi-token prediction
  EXPECT_EQ(checkpoint.skipped().bytes, 31040u);
  EXPECT_EQ(checkpoint.total_bytes(), 3183344u);  // as the index says
  EXPECT_TRUE(checkpoint.has("model.layers.3.mlp.experts.gate_up_proj"));
  read_all(checkpoint);
}

TEST(Checkpoint, MlxLayoutIsReadCompletely) {
  auto checkpoint = open("tests/data/qwen-tiny/mlx-4bit");
  EXPECT_EQ(checkpoint.layout(), Layout::kMlx);
  EXPECT_FALSE(checkpoint.norms_are_zero_centred());
  EXPECT_EQ(checkpoint.skipped().tensors, 0);
  EXPECT_TRUE(checkpoint.has("model.layers.3.mlp.switch_mlp.gate_proj.weight"));
  read_all(checkpoint);
}

TEST(Checkpoint, MixedWidthsAtOddAddressesAreReadCompletely) {
  auto checkpoint = open("tests/data/qwen-tiny/mlx-mixed");
  EXPECT_EQ(checkpoint.layout(), Layout::kMlx);
  EXPECT_EQ(checkpoint.skipped().tensors, 2);
  const auto silent = checkpoint.matrix("model.layers.1.linear_attn.in_proj_b", 4, 64);
  ASSERT_TRUE(silent.ok());
  EXPECT_EQ(silent->encoding, (Encoding{Dtype::kBf16, 0, 0}));
  read_all(checkpoint);
}

// The two layouts store the same model, norms apart by one: each checks the other's names and decoding.
TEST(Checkpoint, LayoutsHoldTheSameModel) {
  auto hugging_face = open("tests/data/qwen-tiny/hf");
  auto mlx = open("tests/data/qwen-tiny/mlx-4bit");
  const auto centred = hugging_face.values("model.layers.2.input_layernorm.weight", 64);
  const auto gain = mlx.values("model.layers.2.input_layernorm.weight", 64);
  ASSERT_TRUE(centred.ok() && gain.ok());
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR((*centred)[i] + 1, (*gain)[i], 1.0 / 256);

  const auto fused = hugging_face.matrix("model.layers.0.mlp.experts.gate_up_proj", 16 * 128, 64);
  const auto up = mlx.matrix("model.layers.0.mlp.switch_mlp.up_proj", 16 * 64, 64);
  ASSERT_TRUE(fused.ok() && up.ok());
  double error = 0;
  double power = 0;
  for (int64_t expert = 0; expert < 16; ++expert) {
    for (int64_t row = 0; row < 64; ++row) {
      float plain[64];
      float packed[64];
      decode_row(*fused, expert * 128 + 64 + row, plain);
      decode_row(*up, expert * 64 + row, packed);
      for (int i = 0; i < 64; ++i) {
        error += std::pow(static_cast<double>(plain[i]) - static_cast<double>(packed[i]), 2);
        power += std::pow(static_cast<double>(plain[i]), 2);
      }
    }
  }
  EXPECT_LT(error / power, 0.01);  // 4 bits; unrelated rows would give 2
}

TEST(Checkpoint, PocketModelsAreReadCompletely) {
  for (const char* folder : {"models/pocket-qwen", "models/pocket-gemma"}) {
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
    auto checkpoint = open(folder);
    EXPECT_EQ(checkpoint.layout(), Layout::kMlx);
    read_all(checkpoint);
  }
}

TEST(Checkpoint, PocketModelsInBfloat16AreReadCompletely) {
  for (const char* folder : {"../shared/models/pocket-qwen/hf", "../shared/models/pocket-gemma/hf"}) {
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
    auto checkpoint = open(folder);
    EXPECT_EQ(checkpoint.layout(), Layout::kHuggingFace);
    read_all(checkpoint);
  }
}

class SmallCheckpoint : public ::testing::Test {
 protected:
  Checkpoint with(const std::vector<testing::StoredTensor>& tensors, const char* config = "{}") {
    folder_.write("config.json", config);
    folder_.write("model.safetensors", safetensors(tensors));
    return open(folder_.path());
  }

  TempFolder folder_;
};

TEST_F(SmallCheckpoint, MtpTensorsDoNotMakeAnMlxFileRaw) {
  const auto checkpoint =
      with({bf16_zeros("language_model.model.layers.0.linear_attn.conv1d.weight", {8, 4, 1}),
            bf16_zeros("language_model.mtp.layers.0.input_layernorm.weight", {8}),
            bf16_zeros("mtp.layers.0.linear_attn.conv1d.weight", {8, 1, 4})});
  EXPECT_FALSE(checkpoint.norms_are_zero_centred());
  EXPECT_EQ(checkpoint.skipped().tensors, 2);
}

TEST_F(SmallCheckpoint, RawConvolutionMakesEvenMlxNamesRaw) {
  const auto checkpoint =
      with({bf16_zeros("language_model.model.layers.0.linear_attn.conv1d.weight", {8, 1, 4})},
           R"({"quantization": {"bits": 4, "group_size": 64}})");
  EXPECT_TRUE(checkpoint.norms_are_zero_centred());
}

TEST_F(SmallCheckpoint, TextOnlyExportIsRead) {
  auto checkpoint = with({bf16_zeros("model.norm.weight", {8}), bf16_zeros("lm_head.weight", {4, 8})});
  EXPECT_TRUE(checkpoint.values("model.norm.weight", 8).ok());
  EXPECT_TRUE(checkpoint.matrix("lm_head", 4, 8).ok());
  EXPECT_TRUE(checkpoint.finish().ok());
}

TEST_F(SmallCheckpoint, TensorsThatNobodyReadsAreNamed) {
  auto checkpoint = with({bf16_zeros("a", {1}), bf16_zeros("b", {1}), bf16_zeros("c", {1}),
                          bf16_zeros("d", {1}), bf16_zeros("read", {1})});
  EXPECT_TRUE(checkpoint.values("read", 1).ok());
  expect_error(checkpoint.finish(), Code::kUnsupported,
               {folder_.path(), " 4 of its tensors", "'a', 'b', 'c', ..."});
}

TEST_F(SmallCheckpoint, SkippedPrefixesAreCountedOnce) {
  auto checkpoint =
      with({bf16_zeros("extra.a", {2}), bf16_zeros("extra.b", {3}), bf16_zeros("extract", {1})});
  checkpoint.skip_prefix("extra.");
  checkpoint.skip_prefix("extra.");
  EXPECT_EQ(checkpoint.skipped().tensors, 2);
  EXPECT_EQ(checkpoint.skipped().bytes, 10u);
  expect_error(checkpoint.finish(), Code::kUnsupported, {" 1 of its tensors", "'extract'"});
}

TEST_F(SmallCheckpoint, ReadingASkippedTensorTakesItOffTheCount) {
  auto checkpoint = with({bf16_zeros("mtp.norm.weight", {4})});
  EXPECT_EQ(checkpoint.skipped().tensors, 1);
  EXPECT_TRUE(checkpoint.values("mtp.norm.weight", 4).ok());
  EXPECT_EQ(checkpoint.skipped().tensors, 0);
  EXPECT_EQ(checkpoint.skipped().bytes, 0u);
}

TEST_F(SmallCheckpoint, ValuesAreWidenedFromEveryFloatType) {
  auto checkpoint = with({{"a", "F32", {2}, std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)},
                          {"b", "F16", {1, 2}, std::string("\x00\x3c\x00\xc0", 4)},
                          {"c", "BF16", {2, 1}, std::string("\x80\x3f\x00\xc0", 4)}});
  for (const char* name : {"a", "b", "c"}) {
    const auto values = checkpoint.values(name, 2);
    ASSERT_TRUE(values.ok());
    EXPECT_EQ(*values, (std::vector<float>{1, -2}));
  }
}

TEST_F(SmallCheckpoint, ValuesOfAnotherCountTypeOrNotFiniteAreErrors) {
  auto checkpoint = with({bf16_zeros("a", {3}),
                          {"b", "I32", {1}, std::string(4, '\0')},
                          {"c", "BF16", {2}, std::string("\x00\x00\x80\x7f", 4)}});
  expect_error(checkpoint.values("a", 4), Code::kCorrupt, {"model.safetensors", "'a'", "[3]", "4 values"});
  expect_error(checkpoint.values("b", 1), Code::kCorrupt, {"model.safetensors", "'b'", "I32"});
  expect_error(checkpoint.values("c", 2), Code::kCorrupt, {"model.safetensors", "'c'", "inf", "index 1"});
  expect_error(checkpoint.values("d", 2), Code::kNotFound, {folder_.path(), "'d'"});
}

TEST_F(SmallCheckpoint, ViewsSurviveMovingTheCheckpoint) {
  auto checkpoint = with({{"a", "BF16", {1, 2}, std::string("\x80\x3f\x00\xc0", 4)}});
  const auto matrix = checkpoint.matrix("a", 1, 2);
  ASSERT_TRUE(matrix.ok());
  const Checkpoint moved = std::move(checkpoint);
  float row[2];
  decode_row(*matrix, 0, row);
  EXPECT_EQ(row[1], -2.0f);
  EXPECT_EQ(moved.tensors()[0]->name, "a");
}

}  // namespace
}  // namespace weir
