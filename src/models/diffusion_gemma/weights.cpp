#include "models/diffusion_gemma/weights.h"

#include <cmath>
#include <string>

#include "models/weight_reader.h"

namespace weir::diffusion_gemma {
namespace {

// Encoder and decoder share all text weights but the layer scalars. The released checkpoints keep the
// decoder's copy; a file that has only the encoder's is read too.
const std::string kDecoder = "model.decoder.";
const std::string kEncoder = "model.encoder.language_model.";

class Reader {
 public:
  Reader(Checkpoint& checkpoint, const Config& config, Steps& steps, const Progress& progress)
      : checkpoint_(checkpoint), config_(config), in_(checkpoint, steps, progress) {
    const bool decoder = checkpoint.has(kDecoder + "embed_tokens.weight");
    shared_ = decoder ? kDecoder : kEncoder;
    other_ = decoder ? kEncoder : kDecoder;
  }

  Result<Weights> read() {
    const Config& c = config_;
    Weights w;
    WEIR_TRY(const Matrix embedding, in_.matrix(shared_ + "embed_tokens", c.vocabulary, c.hidden));
    WEIR_TRY(w.vocabulary, in_.steps().diffusion()->pack_vocabulary(embedding, c.embedding_scale));
    WEIR_TRY(w.condition, read_condition(kDecoder + "self_conditioning."));
    WEIR_TRY(w.ones, in_.upload(std::vector<float>(static_cast<size_t>(c.hidden), 1.0f)));
    for (int64_t i = 0; i < c.layers; ++i) {
      WEIR_TRY(Layer layer, read_layer(i));
      w.layers.push_back(std::move(layer));
    }
    WEIR_TRY(w.norm, in_.vector(shared_ + "norm.weight", c.hidden));
    // Tied copies, and tables that are computed here.
    checkpoint_.skip_prefix("lm_head.");
    checkpoint_.skip_prefix(other_);
    checkpoint_.skip_prefix(shared_ + "rotary_emb");
    WEIR_RETURN_IF_ERROR(checkpoint_.finish());
    return w;
  }

 private:
  Result<SelfConditioning> read_condition(const std::string& prefix) {
    SelfConditioning condition;
    WEIR_TRY(condition.norm, in_.vector(prefix + "pre_norm.weight", config_.hidden));
    WEIR_TRY(condition.gate_up, gate_up(prefix));
    WEIR_TRY(condition.down, down(prefix));
    return condition;
  }

  Result<std::unique_ptr<Linear>> gate_up(const std::string& prefix) {
    const int64_t wide = config_.dense;
    return in_.pack({{prefix + "gate_proj", wide}, {prefix + "up_proj", wide}}, config_.hidden,
                    Use::kProjection);
  }

  Result<std::unique_ptr<Linear>> down(const std::string& prefix) {
    return in_.pack({{prefix + "down_proj", config_.hidden}}, config_.dense, Use::kProjection);
  }

  Result<Layer> read_layer(int64_t index) {
    const std::string name = "layers." + std::to_string(index) + ".", prefix = shared_ + name;
    const int64_t hidden = config_.hidden;
    Layer layer;
    WEIR_TRY(layer.norm_in, in_.vector(prefix + "input_layernorm.weight", hidden));
    WEIR_TRY(layer.attention, read_attention(prefix + "self_attn.", config_.attention(index)));
    WEIR_TRY(layer.norm_attention, in_.vector(prefix + "post_attention_layernorm.weight", hidden));
    WEIR_TRY(layer.norm_dense, in_.vector(prefix + "pre_feedforward_layernorm.weight", hidden));
    WEIR_TRY(layer.gate_up, gate_up(prefix + "mlp."));
    WEIR_TRY(layer.down, down(prefix + "mlp."));
    WEIR_RETURN_IF_ERROR(read_experts(prefix, layer));
    WEIR_TRY(layer.norm_experts, in_.vector(prefix + "pre_feedforward_layernorm_2.weight", hidden));
    WEIR_TRY(layer.norms_out.dense, in_.vector(prefix + "post_feedforward_layernorm_1.weight", hidden));
    WEIR_TRY(layer.norms_out.experts, in_.vector(prefix + "post_feedforward_layernorm_2.weight", hidden));
    WEIR_TRY(layer.norms_out.sum, in_.vector(prefix + "post_feedforward_layernorm.weight", hidden));
    WEIR_TRY(layer.scalars, read_scalars(name));
    return layer;
  }

  Result<WindowedAttentionWeights> read_attention(const std::string& prefix, const AttentionShape& shape) {
    WindowedAttentionWeights w;
    w.heads = config_.heads;
    w.kv_heads = shape.kv_heads;
    w.head_dim = shape.head_dim;
    w.window = shape.window;
    w.rotated_pairs = shape.rotated_pairs;
    w.values_are_keys = shape.values_are_keys;
    w.rope_theta = shape.rope_theta;
    w.norm_epsilon = config_.norm_epsilon;
    std::vector<WeightReader::Part> in{{prefix + "q_proj", w.heads * w.head_dim},
                                       {prefix + "k_proj", w.kv_heads * w.head_dim}};
    if (!w.values_are_keys) in.push_back({prefix + "v_proj", w.kv_heads * w.head_dim});
    WEIR_TRY(w.in, in_.pack(in, config_.hidden, Use::kProjection));
    WEIR_TRY(w.out, in_.pack({{prefix + "o_proj", config_.hidden}}, w.heads * w.head_dim, Use::kProjection));
    WEIR_TRY(w.q_norm, in_.vector(prefix + "q_norm.weight", w.head_dim));
    WEIR_TRY(w.k_norm, in_.vector(prefix + "k_norm.weight", w.head_dim));
    return w;
  }

  Status read_experts(const std::string& prefix, Layer& layer) {
    const Config& c = config_;
    MoeWeights& moe = layer.moe;
    moe.experts = c.experts;
    moe.top_k = c.top_k;
    moe.shared = false;
    moe.activation = Activation::kGeluTanh;
    WEIR_TRY(moe.router, in_.pack({{prefix + "router.proj", c.experts}}, c.hidden, Use::kRouter));
    WEIR_TRY(std::vector<float> gain, checkpoint_.values(prefix + "router.scale", c.hidden));
    const auto shrink = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.hidden)));
    for (float& g : gain) g *= shrink;
    WEIR_TRY(layer.router_gain, in_.upload(gain));
    WEIR_TRY(layer.expert_scale, in_.vector(prefix + "router.per_expert_scale", c.experts));
    WEIR_TRY(const Matrix gate_up,
             in_.matrix(prefix + "experts.gate_up_proj", c.experts * 2 * c.intermediate, c.hidden));
    WEIR_TRY(const Matrix down,
             in_.matrix(prefix + "experts.down_proj", c.experts * c.hidden, c.intermediate));
    WEIR_TRY(moe.expert, in_.steps().pack_experts(split_experts(gate_up, down, c.experts, c.intermediate)));
    return {};
  }

  // A mode without a scalar of its own takes the other's.
  Result<LayerScalars> read_scalars(const std::string& layer) {
    WEIR_TRY(const std::vector<float> own, checkpoint_.values(shared_ + layer + "layer_scalar", 1));
    LayerScalars scalars{own.front(), own.front()};
    if (checkpoint_.has(other_ + layer + "layer_scalar")) {
      WEIR_TRY(const std::vector<float> other, checkpoint_.values(other_ + layer + "layer_scalar", 1));
      (shared_ == kDecoder ? scalars.causal : scalars.canvas) = other.front();
    }
    return scalars;
  }

  Checkpoint& checkpoint_;
  const Config& config_;
  WeightReader in_;
  std::string shared_, other_;
};

}  // namespace

Result<Weights> load_weights(Checkpoint& checkpoint, const Config& config, Steps& steps,
                             const Progress& progress) {
  return Reader(checkpoint, config, steps, progress).read();
}

}  // namespace weir::diffusion_gemma
