// The shapes of Qwen3.6-35B-A3B. Rows have unit gain, so streams keep sane magnitudes and routing is
// near-uniform.
#include <nlohmann/json.hpp>

#include "checkpoint/synthetic_builder.h"
#include "checkpoint/synthetic_models.h"

namespace weir::synthetic {
namespace {

// The text model of Qwen3.6-35B-A3B, by its config.json.
constexpr int64_t kHidden = 2048, kVocabulary = 248320, kExperts = 256, kIntermediate = 512;
constexpr int64_t kHeads = 16, kKvHeads = 2, kHeadDim = 256;
constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kDeltaDim = 128, kTaps = 4;
constexpr int64_t kAttentionInterval = 4;

void add_attention(Builder& b, const std::string& p) {
  b.matrix(p + "q_proj", 0, 2 * kHeads * kHeadDim, kHidden, 4);
  b.matrix(p + "k_proj", 0, kKvHeads * kHeadDim, kHidden, 4);
  b.matrix(p + "v_proj", 0, kKvHeads * kHeadDim, kHidden, 4);
  b.matrix(p + "o_proj", 0, kHidden, kHeads * kHeadDim, 4);
  b.vector(p + "q_norm.weight", {kHeadDim}, kHeadDim, 0.9f, 1.1f);
  b.vector(p + "k_norm.weight", {kHeadDim}, kHeadDim, 0.9f, 1.1f);
}

void add_delta_net(Builder& b, const std::string& p) {
  constexpr int64_t kChannels = (2 * kKeyHeads + kValueHeads) * kDeltaDim, kValues = kValueHeads * kDeltaDim;
  b.matrix(p + "in_proj_qkv", 0, kChannels, kHidden, 4);
  b.matrix(p + "in_proj_z", 0, kValues, kHidden, 4);
  b.matrix(p + "in_proj_b", 0, kValueHeads, kHidden, 4);
  b.matrix(p + "in_proj_a", 0, kValueHeads, kHidden, 4);
  b.matrix(p + "out_proj", 0, kHidden, kValues, 4);
  b.vector(p + "conv1d.weight", {kChannels, kTaps, 1}, kChannels * kTaps, -0.5f, 0.5f);
  b.vector(p + "A_log", {kValueHeads}, kValueHeads, -4.0f, 0.0f);  // decays of 0.5 to 0.99 a token at a = 0
  b.vector(p + "dt_bias", {kValueHeads}, kValueHeads, -1.0f, 1.0f);
  b.vector(p + "norm.weight", {kDeltaDim}, kDeltaDim, 0.9f, 1.1f);
}

void add_experts(Builder& b, const std::string& p, int64_t bits) {
  b.matrix(p + "gate", 0, kExperts, kHidden, 8);
  b.matrix(p + "shared_expert_gate", 0, 1, kHidden, 8);
  b.matrix(p + "switch_mlp.gate_proj", kExperts, kIntermediate, kHidden, bits);
  b.matrix(p + "switch_mlp.up_proj", kExperts, kIntermediate, kHidden, bits);
  b.matrix(p + "switch_mlp.down_proj", kExperts, kHidden, kIntermediate, bits);
  b.matrix(p + "shared_expert.gate_proj", 0, kIntermediate, kHidden, 4);
  b.matrix(p + "shared_expert.up_proj", 0, kIntermediate, kHidden, 4);
  b.matrix(p + "shared_expert.down_proj", 0, kHidden, kIntermediate, 4);
}

nlohmann::json config_of(int64_t layers) {
  const nlohmann::json text = {
      {"model_type", "qwen3_5_moe_text"},
      {"num_hidden_layers", layers},
      {"hidden_size", kHidden},
      {"vocab_size", kVocabulary},
      {"max_position_embeddings", 262144},
      {"num_attention_heads", kHeads},
      {"num_key_value_heads", kKvHeads},
      {"head_dim", kHeadDim},
      {"linear_num_key_heads", kKeyHeads},
      {"linear_num_value_heads", kValueHeads},
      {"linear_key_head_dim", kDeltaDim},
      {"linear_value_head_dim", kDeltaDim},
      {"linear_conv_kernel_dim", kTaps},
      {"num_experts", kExperts},
      {"num_experts_per_tok", 8},
      {"moe_intermediate_size", kIntermediate},
      {"shared_expert_intermediate_size", kIntermediate},
      {"rms_norm_eps", 1e-6},
      {"full_attention_interval", kAttentionInterval},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e7}, {"partial_rotary_factor", 0.25}}}};
  return {{"model_type", "qwen3_5_moe"},
          {"text_config", text},
          {"eos_token_id", {248046, 248044}},
          {"quantization", {{"group_size", kGroup}, {"bits", 4}, {"mode", "affine"}}}};
}

}  // namespace

Result<Checkpoint> qwen(std::string origin, Size size) {
  Builder b(kVocabulary * kHidden / 2);
  const std::string root = "language_model.model.";
  b.matrix(root + "embed_tokens", 0, kVocabulary, kHidden, 4);
  b.matrix("language_model.lm_head", 0, kVocabulary, kHidden, 4);
  b.vector(root + "norm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
  for (int64_t i = 0; i < size.layers; ++i) {
    const std::string p = root + "layers." + std::to_string(i) + ".";
    b.vector(p + "input_layernorm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
    b.vector(p + "post_attention_layernorm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
    if ((i + 1) % kAttentionInterval == 0) {
      add_attention(b, p + "self_attn.");
    } else {
      add_delta_net(b, p + "linear_attn.");
    }
    add_experts(b, p + "mlp.", size.expert_bits);
  }
  return b.finish(std::move(origin), config_of(size.layers));
}

}  // namespace weir::synthetic
