#include "checkpoint/summary.h"

#include <gtest/gtest.h>

#include "model_folder.h"

namespace weir {
namespace {

using testing::bf16_zeros;
using testing::StoredTensor;

StoredTensor words(const std::string& name, int64_t rows, int64_t cols) {
  return {name, "U32", {rows, cols}, std::string(static_cast<size_t>(rows * cols) * 4, '\0')};
}

const ModuleSummary& of_kind(const CheckpointSummary& summary, ModuleKind kind) {
  for (const auto& [found, module] : summary.kinds) {
    if (found == kind) return module;
  }
  static const ModuleSummary kNone;
  return kNone;
}

TEST(Summary, EveryTensorOfEitherModelHasItsKind) {
  const std::pair<const char*, ModuleKind> kExpected[] = {
      {"model.language_model.embed_tokens.weight", ModuleKind::kEmbedding},
      {"language_model.lm_head.scales", ModuleKind::kHead},
      {"model.language_model.norm.weight", ModuleKind::kNorms},
      {"language_model.model.layers.0.input_layernorm.weight", ModuleKind::kNorms},
      {"model.language_model.layers.0.linear_attn.norm.weight", ModuleKind::kNorms},
      {"model.decoder.layers.1.post_feedforward_layernorm_2.weight", ModuleKind::kNorms},
      {"model.layers.3.self_attn.q_norm.weight", ModuleKind::kNorms},
      {"model.layers.3.self_attn.q_proj.weight", ModuleKind::kAttention},
      {"model.layers.0.linear_attn.A_log", ModuleKind::kDeltaNet},
      {"model.layers.0.linear_attn.conv1d.weight", ModuleKind::kDeltaNet},
      {"model.layers.0.mlp.gate.weight", ModuleKind::kRouter},
      {"model.decoder.layers.0.router.per_expert_scale", ModuleKind::kRouter},
      {"model.layers.0.mlp.shared_expert_gate.weight", ModuleKind::kSharedExpert},
      {"model.layers.0.mlp.shared_expert.down_proj.weight", ModuleKind::kSharedExpert},
      {"model.layers.0.mlp.experts.gate_up_proj", ModuleKind::kExperts},
      {"model.layers.0.mlp.switch_mlp.gate_proj.biases", ModuleKind::kExperts},
      {"model.decoder.layers.0.experts.down_proj.weight", ModuleKind::kExperts},
      {"model.decoder.layers.0.mlp.gate_proj.weight", ModuleKind::kMlp},
      {"model.decoder.self_conditioning.up_proj.weight", ModuleKind::kSelfConditioning},
      {"model.decoder.layers.0.layer_scalar", ModuleKind::kOther},
      {"mtp.layers.0.mlp.gate.weight", ModuleKind::kSkipped},
      {"vision_tower.merger.norm.weight", ModuleKind::kSkipped},
  };
  for (const auto& [name, kind] : kExpected) {
    EXPECT_EQ(module_kind(name), kind) << name << " is " << module_kind_name(module_kind(name));
  }
}

TEST(Summary, CountsParametersBytesAndBitsOfPackedMatrices) {
  const testing::TempFolder folder;
  folder.write("config.json", R"({"quantization": {"bits": 4, "group_size": 64,
      "language_model.lm_head": {"bits": 8, "group_size": 32}}})");
  folder.write("model.safetensors",
               testing::safetensors({words("language_model.model.embed_tokens.weight", 10, 16),
                                     bf16_zeros("language_model.model.embed_tokens.scales", {10, 2}),
                                     bf16_zeros("language_model.model.embed_tokens.biases", {10, 2}),
                                     words("language_model.lm_head.weight", 10, 32),
                                     bf16_zeros("language_model.lm_head.scales", {10, 4}),
                                     bf16_zeros("language_model.lm_head.biases", {10, 4}),
                                     bf16_zeros("language_model.model.norm.weight", {128}),
                                     bf16_zeros("vision_tower.x", {1000})}));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto summary = summarize(*checkpoint);

  const auto& embedding = of_kind(summary, ModuleKind::kEmbedding);
  EXPECT_EQ(embedding.tensors, 3);
  EXPECT_EQ(embedding.parameters, 1280);
  EXPECT_EQ(embedding.bytes, 640u + 80u);
  EXPECT_EQ(embedding.bits_per_weight(), 4.5);
  EXPECT_EQ(embedding.encodings, (std::map<std::string, int64_t>{{"affine 4-bit, groups of 64", 1280}}));

  EXPECT_EQ(of_kind(summary, ModuleKind::kHead).bits_per_weight(), 9.0);
  EXPECT_EQ(of_kind(summary, ModuleKind::kNorms).encodings, (std::map<std::string, int64_t>{{"bf16", 128}}));
  EXPECT_EQ(of_kind(summary, ModuleKind::kSkipped).bytes, 2000u);
  EXPECT_EQ(summary.total.tensors, 7);
  EXPECT_EQ(summary.total.parameters, 2688);
  EXPECT_EQ(summary.total.bytes, 720u + 1440u + 256u);
}

// Both layouts hold the same model, so every kind has the same number of parameters in both.
TEST(Summary, LayoutsOfOneModelHaveTheSameParameters) {
  const auto hugging_face = Checkpoint::open("tests/data/qwen-tiny/hf");
  ASSERT_TRUE(hugging_face.ok());
  const auto plain = summarize(*hugging_face);
  for (const char* folder : {"tests/data/qwen-tiny/mlx-4bit", "tests/data/qwen-tiny/mlx-mixed"}) {
    const auto mlx = Checkpoint::open(folder);
    ASSERT_TRUE(mlx.ok());
    const auto packed = summarize(*mlx);
    EXPECT_EQ(packed.total.parameters, plain.total.parameters);
    for (const auto& [kind, module] : packed.kinds) {
      if (kind == ModuleKind::kSkipped) continue;
      EXPECT_EQ(module.parameters, of_kind(plain, kind).parameters) << module_kind_name(kind);
    }
  }
}

TEST(Summary, PackedMatricesThatFitNothingAreCountedAsTheyAre) {
  const testing::TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", testing::safetensors({words("m.weight", 2, 7),
                                                          bf16_zeros("m.scales", {2, 1}),
                                                          {"n.weight", "U32", {0, int64_t{1} << 62}, ""},
                                                          bf16_zeros("n.scales", {0})}));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto summary = summarize(*checkpoint);
  EXPECT_EQ(summary.total.parameters, 14);
  EXPECT_TRUE(summary.total.encodings.contains("not affine"));
}

}  // namespace
}  // namespace weir
