// The shapes of a synthetic DiffusionGemma, by name, against what a converted checkpoint holds.
#include "checkpoint/synthetic.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/tensor.h"

namespace weir {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// An affine matrix: values packed into words of 32 bits, and a scale and a bias for each 64 of a row.
void add_affine(Shapes& shapes, const std::string& module, const std::vector<int64_t>& words,
                const std::vector<int64_t>& groups) {
  shapes[module + ".weight"] = words;
  shapes[module + ".scales"] = groups;
  shapes[module + ".biases"] = groups;
}

void add_layer(Shapes& shapes, int layer, bool full) {
  const std::string p = "model.decoder.layers." + std::to_string(layer) + ".";
  const std::string attention = p + "self_attn.";
  if (full) {
    add_affine(shapes, attention + "q_proj", {8192, 704}, {8192, 44});
    add_affine(shapes, attention + "k_proj", {1024, 704}, {1024, 44});
    add_affine(shapes, attention + "o_proj", {2816, 2048}, {2816, 128});
  } else {
    add_affine(shapes, attention + "q_proj", {4096, 704}, {4096, 44});
    add_affine(shapes, attention + "k_proj", {2048, 704}, {2048, 44});
    add_affine(shapes, attention + "v_proj", {2048, 704}, {2048, 44});
    add_affine(shapes, attention + "o_proj", {2816, 1024}, {2816, 64});
  }
  shapes[attention + "q_norm.weight"] = shapes[attention + "k_norm.weight"] = {full ? 512 : 256};
  add_affine(shapes, p + "mlp.gate_proj", {2112, 704}, {2112, 44});
  add_affine(shapes, p + "mlp.up_proj", {2112, 704}, {2112, 44});
  add_affine(shapes, p + "mlp.down_proj", {2816, 528}, {2816, 33});
  add_affine(shapes, p + "router.proj", {128, 704}, {128, 44});
  shapes[p + "router.scale"] = {2816};
  shapes[p + "router.per_expert_scale"] = {128};
  add_affine(shapes, p + "experts.gate_up_proj", {128, 1408, 352}, {128, 1408, 44});
  add_affine(shapes, p + "experts.down_proj", {128, 2816, 88}, {128, 2816, 11});
  for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                           "post_feedforward_layernorm", "post_feedforward_layernorm_1",
                           "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"}) {
    shapes[p + norm + ".weight"] = {2816};
  }
  shapes[p + "layer_scalar"] = {1};
  shapes["model.encoder.language_model.layers." + std::to_string(layer) + ".layer_scalar"] = {1};
}

Shapes expected_shapes(int layers) {
  Shapes shapes;
  add_affine(shapes, "model.decoder.embed_tokens", {262144, 704}, {262144, 44});
  shapes["model.decoder.norm.weight"] = {2816};
  const std::string condition = "model.decoder.self_conditioning.";
  shapes[condition + "pre_norm.weight"] = {2816};
  add_affine(shapes, condition + "gate_proj", {2112, 352}, {2112, 44});
  add_affine(shapes, condition + "up_proj", {2112, 352}, {2112, 44});
  add_affine(shapes, condition + "down_proj", {2816, 264}, {2816, 33});
  for (int i = 0; i < layers; ++i) add_layer(shapes, i, i % 6 == 5);
  return shapes;
}

TEST(SyntheticDiffusionGemma, has_every_tensor_of_the_converted_model_and_no_other) {
  const auto checkpoint = synthetic_checkpoint("synthetic:diffusiongemma-26b-a4b,layers=7");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  Shapes shapes;
  for (const TensorView* tensor : checkpoint->tensors()) {
    shapes[tensor->name] = tensor->shape;
    const bool packed = tensor->name.ends_with(".weight") &&
                        checkpoint->has(tensor->name.substr(0, tensor->name.size() - 7) + ".scales");
    EXPECT_EQ(tensor->dtype, packed ? Dtype::kU32 : Dtype::kBf16) << tensor->name;
  }
  EXPECT_EQ(shapes, expected_shapes(7));
  EXPECT_EQ(checkpoint->layout(), Layout::kMlx);
}

TEST(SyntheticDiffusionGemma, names_the_bits_of_each_module_in_its_config) {
  auto checkpoint = synthetic_checkpoint("synthetic:diffusiongemma-26b-a4b,layers=1");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto bits = [&](const std::string& module, int64_t rows, int64_t cols) {
    const auto matrix = checkpoint->matrix(module, rows, cols);
    EXPECT_TRUE(matrix.ok()) << matrix.error().message;
    return matrix.ok() ? matrix->encoding.bits : 0;
  };
  EXPECT_EQ(bits("model.decoder.embed_tokens", 262144, 2816), 8);
  EXPECT_EQ(bits("model.decoder.self_conditioning.up_proj", 2112, 2816), 4);
  EXPECT_EQ(bits("model.decoder.layers.0.self_attn.v_proj", 2048, 2816), 8);
  EXPECT_EQ(bits("model.decoder.layers.0.mlp.down_proj", 2816, 2112), 8);
  EXPECT_EQ(bits("model.decoder.layers.0.router.proj", 128, 2816), 8);
  EXPECT_EQ(bits("model.decoder.layers.0.experts.gate_up_proj", 128 * 1408, 2816), 4);
  EXPECT_EQ(bits("model.decoder.layers.0.experts.down_proj", 128 * 2816, 704), 4);
  EXPECT_TRUE(checkpoint->notes().empty());  // nothing is stored otherwise than config.json says
}

TEST(SyntheticDiffusionGemma, has_experts_of_as_many_bits_as_wanted) {
  for (const int bits : {2, 3}) {
    auto checkpoint = synthetic_checkpoint(
        "synthetic:diffusiongemma-26b-a4b,experts=" + std::to_string(bits) + ",layers=1");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const std::string layer = "model.decoder.layers.0.";
    EXPECT_EQ(checkpoint->matrix(layer + "experts.gate_up_proj", 128 * 1408, 2816)->encoding.bits, bits);
    EXPECT_EQ(checkpoint->matrix(layer + "experts.down_proj", 128 * 2816, 704)->encoding.bits, bits);
    EXPECT_EQ(checkpoint->matrix(layer + "mlp.down_proj", 2816, 2112)->encoding.bits, 8);
    EXPECT_TRUE(checkpoint->notes().empty());
  }
}

TEST(SyntheticQwen, has_the_bytes_of_experts_of_two_bits) {
  const auto four = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b");
  const auto two = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b,experts=2");
  ASSERT_TRUE(four.ok() && two.ok());
  // 40 layers of 256 experts of three matrices of 512 x 2048, two bits less for each value.
  EXPECT_EQ(four->total_bytes() - two->total_bytes(), uint64_t{40} * 256 * 3 * 512 * 2048 * 2 / 8);
}

TEST(SyntheticDiffusionGemma, has_the_bytes_of_the_converted_model) {
  const auto checkpoint = synthetic_checkpoint("synthetic:diffusiongemma-26b-a4b");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  // 22.838 G values of experts and 0.018 G of self-conditioning in 4.5 bits; 0.738 G of embeddings, 1.110 G
  // of attention, 0.535 G of the dense MLPs and 0.011 G of routers in 8.5.
  const double gigabytes = ((22.838 + 0.018) * 4.5 + (0.738 + 1.110 + 0.535 + 0.011) * 8.5) / 8;
  EXPECT_NEAR(static_cast<double>(checkpoint->total_bytes()) * 1e-9, gigabytes, 0.01);
}

TEST(SyntheticDiffusionGemma, refuses_other_sizes) {
  for (const char* option : {"layers=0", "layers=-1", "layers=31", "layers=", "layers=2x",
                             "layers=2,layers=3", "layers=99999999999999999999", "LAYERS=2", "experts=1",
                             "experts=5", "experts=2,experts=3", "layers=2,", ""}) {
    const std::string reference = std::string("synthetic:diffusiongemma-26b-a4b,") + option;
    const auto checkpoint = synthetic_checkpoint(reference);
    ASSERT_FALSE(checkpoint.ok()) << reference;
    EXPECT_EQ(checkpoint.error().code, Code::kInvalidArgument);
    EXPECT_NE(checkpoint.error().message.find(reference), std::string::npos);
    EXPECT_NE(checkpoint.error().hint.find("diffusiongemma-26b-a4b[,layers=1 to 30][,experts=2, 3 or 4]"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weir
