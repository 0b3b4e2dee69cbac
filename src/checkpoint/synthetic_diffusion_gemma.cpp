// The shapes of DiffusionGemma-26B-A4B. All rows of matrices have unit gain, and so have most norms: what the
// MLPs of a layer add is as large as an embedding, and layer scalars keep the stream from growing. Logits
// have size 1, but for that of a row's own token, which a short stack of layers does not forget.
//
// Random layers make rows alike: attention adds to each a mean over the same values, and self-conditioning
// nearly the same expectation; after some layers all rows would go to the same experts. Both are therefore
// kept small.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/synthetic_builder.h"
#include "checkpoint/synthetic_models.h"

namespace weir::synthetic {
namespace {

// The text model, by its config.json.
constexpr int64_t kHidden = 2816, kVocabulary = 262144, kCanvas = 256, kDense = 2112;
constexpr int64_t kHeads = 16, kWindow = 1024;
constexpr int64_t kExperts = 128, kTopK = 8, kIntermediate = 704;
constexpr int64_t kFullInterval = 6;  // every so many layers, the last attends to everything

struct AttentionShape {
  int64_t kv_heads, head_dim;
};
constexpr AttentionShape kSliding{8, 256}, kFull{2, 512};

// Scores, which are not scaled, have about this deviation: at each row a few positions win.
constexpr float kScoreDeviation = 4;

// Of the norm of attention's result, and of the one before self-conditioning, whose result goes with its
// square.
constexpr float kAttentionGain = 0.1f, kConditioningGain = 0.5f;

bool is_full(int64_t layer) {
  return (layer + 1) % kFullInterval == 0;
}

std::string layer_name(int64_t layer) {
  return "layers." + std::to_string(layer) + ".";
}

// Modules of other bits among those of 4, as config.json lists them.
class Modules {
 public:
  Modules(Builder& builder, nlohmann::json& quantization) : builder_(builder), quantization_(quantization) {}

  void matrix(const std::string& module, int64_t stack, int64_t rows, int64_t cols, int64_t bits) {
    builder_.matrix(module, stack, rows, cols, bits);
    if (bits != 4) quantization_[module] = {{"group_size", kGroup}, {"bits", bits}};
  }
  void bits8(const std::string& module, int64_t rows, int64_t cols) { matrix(module, 0, rows, cols, 8); }
  void gains(const std::string& name, int64_t count, float low = 0.9f, float high = 1.1f) {
    builder_.vector(name, {count}, count, low, high);
  }

 private:
  Builder& builder_;
  nlohmann::json& quantization_;
};

// The released q_norm and k_norm are constant vectors too.
void add_attention(Modules& m, const std::string& p, bool full) {
  const auto [kv_heads, dim] = full ? kFull : kSliding;
  m.bits8(p + "q_proj", kHeads * dim, kHidden);
  m.bits8(p + "k_proj", kv_heads * dim, kHidden);
  if (!full) m.bits8(p + "v_proj", kv_heads * dim, kHidden);
  m.bits8(p + "o_proj", kHidden, kHeads * dim);
  const float k_gain = kScoreDeviation / std::sqrt(static_cast<float>(dim));
  m.gains(p + "q_norm.weight", dim, 1, 1);
  m.gains(p + "k_norm.weight", dim, k_gain, k_gain);
}

// The router's input is the normed stream times scale / sqrt(hidden): its logits get size 1.
void add_experts(Modules& m, const std::string& p, int64_t bits) {
  m.bits8(p + "router.proj", kExperts, kHidden);
  const float root = std::sqrt(static_cast<float>(kHidden));
  m.gains(p + "router.scale", kHidden, 0.9f * root, 1.1f * root);
  m.gains(p + "router.per_expert_scale", kExperts);
  m.matrix(p + "experts.gate_up_proj", kExperts, 2 * kIntermediate, kHidden, bits);
  m.matrix(p + "experts.down_proj", kExperts, kHidden, kIntermediate, bits);
}

void add_layer(Modules& m, int64_t layer, int64_t expert_bits) {
  const std::string p = "model.decoder." + layer_name(layer);
  for (const char* norm :
       {"input_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
        "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"}) {
    m.gains(p + norm + ".weight", kHidden);
  }
  m.gains(p + "post_attention_layernorm.weight", kHidden, kAttentionGain, kAttentionGain);
  add_attention(m, p + "self_attn.", is_full(layer));
  m.bits8(p + "mlp.gate_proj", kDense, kHidden);
  m.bits8(p + "mlp.up_proj", kDense, kHidden);
  m.bits8(p + "mlp.down_proj", kHidden, kDense);
  add_experts(m, p, expert_bits);
  const float scalar = 0.5f + 0.5f * Builder::uniform(layer);
  m.gains(p + "layer_scalar", 1, scalar, scalar);
  m.gains("model.encoder.language_model." + layer_name(layer) + "layer_scalar", 1, scalar, scalar);
}

nlohmann::json text_config(int64_t layers) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i) types.push_back(is_full(i) ? "full_attention" : "sliding_attention");
  const nlohmann::json sliding = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  const nlohmann::json full = {
      {"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  return {{"model_type", "diffusion_gemma_text"},
          {"num_hidden_layers", layers},
          {"hidden_size", kHidden},
          {"vocab_size", kVocabulary},
          {"max_position_embeddings", 262144},
          {"layer_types", types},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kSliding.kv_heads},
          {"num_global_key_value_heads", kFull.kv_heads},
          {"head_dim", kSliding.head_dim},
          {"global_head_dim", kFull.head_dim},
          {"sliding_window", kWindow},
          {"intermediate_size", kDense},
          {"num_experts", kExperts},
          {"top_k_experts", kTopK},
          {"moe_intermediate_size", kIntermediate},
          {"hidden_activation", "gelu_pytorch_tanh"},
          {"rms_norm_eps", 1e-6},
          {"final_logit_softcapping", 30.0},
          {"tie_word_embeddings", true},
          {"rope_parameters", {{"sliding_attention", sliding}, {"full_attention", full}}}};
}

}  // namespace

Result<Checkpoint> diffusion_gemma(std::string origin, Size size) {
  Builder builder(std::max(kVocabulary * kHidden, kExperts * kIntermediate * kHidden));
  nlohmann::json quantization = {{"group_size", kGroup}, {"bits", 4}, {"mode", "affine"}};
  Modules m(builder, quantization);
  const std::string root = "model.decoder.", condition = root + "self_conditioning.";
  m.bits8(root + "embed_tokens", kVocabulary, kHidden);
  m.gains(root + "norm.weight", kHidden);
  m.gains(condition + "pre_norm.weight", kHidden, kConditioningGain, kConditioningGain);
  m.matrix(condition + "gate_proj", 0, kDense, kHidden, 4);
  m.matrix(condition + "up_proj", 0, kDense, kHidden, 4);
  m.matrix(condition + "down_proj", 0, kHidden, kDense, 4);
  for (int64_t i = 0; i < size.layers; ++i) add_layer(m, i, size.expert_bits);
  const nlohmann::json config = {{"architectures", {"DiffusionGemmaForBlockDiffusion"}},
                                 {"model_type", "diffusion_gemma"},
                                 {"canvas_length", kCanvas},
                                 {"tie_word_embeddings", true},
                                 {"text_config", text_config(size.layers)},
                                 {"eos_token_id", {1, 106, 50}},
                                 {"quantization", quantization}};
  return builder.finish(std::move(origin), config);
}

}  // namespace weir::synthetic
