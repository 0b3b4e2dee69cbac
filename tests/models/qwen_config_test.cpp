// config.json of Qwen3.6: what is read, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/qwen/config.h"

namespace weir::test {
namespace {

namespace fs = std::filesystem;

// A copy of the tiny model whose text_config is changed by `edit`.
class QwenConfig : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weir_qwen_config_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::copy("tests/data/qwen-tiny/mlx-4bit", folder_);
    std::ifstream in(folder_ / "config.json");
    config_ = nlohmann::json::parse(in);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<qwen::Config> read() {
    std::ofstream(folder_ / "config.json") << config_.dump();
    auto checkpoint = Checkpoint::open(folder_.string());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    return qwen::read_config(*checkpoint);
  }

  void expect_refused(Code code, const std::string& what) {
    const auto config = read();
    ASSERT_FALSE(config.ok()) << "expected a refusal that names " << what;
    EXPECT_EQ(config.error().code, code) << config.error().message;
    EXPECT_NE(config.error().message.find(what), std::string::npos) << config.error().message;
    EXPECT_NE(config.error().message.find("config.json"), std::string::npos) << config.error().message;
  }

  fs::path folder_;
  nlohmann::json config_;
};

TEST_F(QwenConfig, reads_the_tiny_model) {
  const auto config = read();
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers, 4);
  EXPECT_EQ(config->hidden, 64);
  EXPECT_EQ(config->vocabulary, 512);
  EXPECT_EQ(config->rotary_dim, 64);
  EXPECT_EQ(config->rope_theta, 1e7f);
  EXPECT_EQ(config->experts, 16);
  EXPECT_EQ(config->top_k, 8);
  EXPECT_EQ(config->mixers[2], qwen::Mixer::kDeltaNet);
  EXPECT_EQ(config->mixers[3], qwen::Mixer::kAttention);
}

TEST_F(QwenConfig, reads_a_flat_text_only_config) {
  nlohmann::json flat = config_["text_config"];
  flat["quantization"] = config_["quantization"];
  config_ = flat;
  const auto config = read();
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->hidden, 64);
}

TEST_F(QwenConfig, derives_layer_kinds_from_the_interval) {
  config_["text_config"].erase("layer_types");
  const auto config = read();
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->mixers[3], qwen::Mixer::kAttention);
  EXPECT_EQ(config->mixers[0], qwen::Mixer::kDeltaNet);
}

TEST_F(QwenConfig, refuses_what_it_would_compute_wrongly) {
  const nlohmann::json good = config_;
  const std::pair<const char*, nlohmann::json> edits[] = {
      {"hidden_act", "gelu"},
      {"attention_bias", true},
      {"attn_output_gate", false},
      {"tie_word_embeddings", true},
      {"shared_expert_intermediate_size", 128},
      {"model_type", "llama"},
      {"num_key_value_heads", 3},
      {"num_experts_per_tok", 17},
      {"hidden_size", 65},
  };
  for (const auto& [key, value] : edits) {
    config_ = good;
    config_["text_config"][key] = value;
    const auto config = read();
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_EQ(config.error().code, Code::kUnsupported) << key;
  }
  config_ = good;
  config_["text_config"]["rope_parameters"]["type"] = "yarn";
  expect_refused(Code::kUnsupported, "yarn");
}

TEST_F(QwenConfig, names_a_missing_or_mistyped_field) {
  const nlohmann::json good = config_;
  for (const char* key : {"num_hidden_layers", "hidden_size", "vocab_size", "head_dim", "num_experts"}) {
    config_ = good;
    config_["text_config"].erase(key);
    expect_refused(Code::kCorrupt, key);
    for (const nlohmann::json& bad :
         {nlohmann::json("4"), nlohmann::json(-1), nlohmann::json(0), nlohmann::json(1e30)}) {
      config_["text_config"][key] = bad;
      expect_refused(Code::kCorrupt, key);
    }
  }
  config_ = good;
  config_["text_config"]["layer_types"] = {"full_attention"};
  expect_refused(Code::kCorrupt, "layer_types");
}

}  // namespace
}  // namespace weir::test
