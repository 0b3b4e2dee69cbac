#include "models/qwen/weights.h"

#include <cmath>
#include <string>
#include <utility>

#include "models/weight_reader.h"

namespace weir::qwen {
namespace {

class Reader {
 public:
  Reader(Checkpoint& checkpoint, const Config& config, Steps& steps, const Progress& progress)
      : checkpoint_(checkpoint), config_(config), in_(checkpoint, steps, progress) {}

  Result<Weights> read(bool draft_head) {
    Weights w;
    WEIR_TRY(const Matrix embedding, in_.matrix("model.embed_tokens", config_.vocabulary, config_.hidden));
    WEIR_TRY(w.embedding, in_.steps().pack_embedding(embedding));
    int64_t attention_layers = 0, delta_layers = 0;
    for (int64_t i = 0; i < config_.layers; ++i) {
      const bool attention = config_.mixers[static_cast<size_t>(i)] == Mixer::kAttention;
      WEIR_TRY(Layer layer, read_layer("model.layers." + std::to_string(i) + ".", attention));
      layer.index = attention ? attention_layers++ : delta_layers++;
      w.layers.push_back(std::move(layer));
    }
    WEIR_TRY(w.norm, shifted_gain("model.norm.weight", config_.hidden));
    WEIR_TRY(w.head, in_.pack({{"lm_head", config_.vocabulary}}, config_.hidden, Use::kProjection));
    if (draft_head) {
      WEIR_TRY(w.draft_head, read_draft_head());
    }
    WEIR_RETURN_IF_ERROR(checkpoint_.finish());
    return w;
  }

 private:
  Result<DraftHead> read_draft_head() {
    if (!has_draft_head(checkpoint_)) {
      return Error{Code::kNotFound,
                   checkpoint_.folder() + " has no multi-token prediction head: no tensor mtp.fc.weight",
                   "conversions to MLX leave it out, weir quantize keeps it; --draft lookup needs none"};
    }
    const int64_t hidden = config_.hidden;
    DraftHead head;
    WEIR_TRY(head.norm_embedding, shifted_gain("mtp.pre_fc_norm_embedding.weight", hidden));
    WEIR_TRY(head.norm_hidden, shifted_gain("mtp.pre_fc_norm_hidden.weight", hidden));
    WEIR_TRY(head.norm, shifted_gain("mtp.norm.weight", hidden));
    WEIR_TRY(const Matrix fc, in_.matrix("mtp.fc", hidden, 2 * hidden));
    for (const auto& [first, half] :
         {std::pair{int64_t{0}, &head.from_embedding}, std::pair{hidden, &head.from_hidden}}) {
      const Matrix& columns = head.columns.emplace_back(fc, first, hidden).matrix();
      WEIR_TRY(*half, in_.steps().pack({&columns, 1}, Use::kProjection));
    }
    WEIR_TRY(head.layer, read_layer("mtp.layers.0.", true));
    return head;
  }

  Result<Layer> read_layer(const std::string& prefix, bool attention) {
    Layer layer;
    WEIR_TRY(layer.norm_in, shifted_gain(prefix + "input_layernorm.weight", config_.hidden));
    WEIR_TRY(layer.norm_post, shifted_gain(prefix + "post_attention_layernorm.weight", config_.hidden));
    if (attention) {
      WEIR_TRY(layer.attention, read_attention(prefix + "self_attn."));
    } else {
      WEIR_TRY(layer.delta, read_delta(prefix + "linear_attn."));
    }
    WEIR_TRY(layer.moe, read_moe(prefix + "mlp."));
    return layer;
  }

  Result<AttentionWeights> read_attention(const std::string& prefix) {
    const Config& c = config_;
    AttentionWeights w;
    w.heads = c.heads;
    w.kv_heads = c.kv_heads;
    w.head_dim = c.head_dim;
    w.rotary_dim = c.rotary_dim;
    w.rope_theta = c.rope_theta;
    w.norm_epsilon = c.norm_epsilon;
    const std::vector<WeightReader::Part> in{{prefix + "q_proj", 2 * c.heads * c.head_dim},
                                             {prefix + "k_proj", c.kv_heads * c.head_dim},
                                             {prefix + "v_proj", c.kv_heads * c.head_dim}};
    WEIR_TRY(w.in, in_.pack(in, c.hidden, Use::kProjection));
    WEIR_TRY(w.out, in_.pack({{prefix + "o_proj", c.hidden}}, c.heads * c.head_dim, Use::kProjection));
    WEIR_TRY(w.q_norm, shifted_gain(prefix + "q_norm.weight", c.head_dim));
    WEIR_TRY(w.k_norm, shifted_gain(prefix + "k_norm.weight", c.head_dim));
    return w;
  }

  Result<DeltaWeights> read_delta(const std::string& prefix) {
    const Config& c = config_;
    DeltaWeights w;
    w.key_heads = c.key_heads;
    w.value_heads = c.value_heads;
    w.key_dim = c.key_dim;
    w.value_dim = c.value_dim;
    w.taps = c.conv_taps;
    w.norm_epsilon = c.norm_epsilon;
    const int64_t values = c.value_heads * c.value_dim;
    const std::vector<WeightReader::Part> in{{prefix + "in_proj_qkv", w.channels()},
                                             {prefix + "in_proj_z", values},
                                             {prefix + "in_proj_b", c.value_heads},
                                             {prefix + "in_proj_a", c.value_heads}};
    WEIR_TRY(w.in, in_.pack(in, c.hidden, Use::kProjection));
    WEIR_TRY(w.out, in_.pack({{prefix + "out_proj", c.hidden}}, values, Use::kProjection));
    WEIR_TRY(w.conv, read_conv(prefix + "conv1d.weight", w));
    WEIR_TRY(std::vector<float> decay, checkpoint_.values(prefix + "A_log", c.value_heads));
    for (float& value : decay) value = std::exp(value);
    WEIR_TRY(w.decay, in_.upload(decay));
    WEIR_TRY(w.dt_bias, in_.vector(prefix + "dt_bias", c.value_heads));
    WEIR_TRY(w.norm, in_.vector(prefix + "norm.weight", c.value_dim));
    return w;
  }

  // Stored channel by channel, [channels, taps]; the steps want [taps, channels].
  Result<Vector> read_conv(const std::string& name, const DeltaWeights& w) {
    WEIR_TRY(const std::vector<float> stored, checkpoint_.values(name, w.channels() * w.taps));
    std::vector<float> turned(stored.size());
    for (int64_t c = 0; c < w.channels(); ++c) {
      for (int64_t j = 0; j < w.taps; ++j) {
        turned[static_cast<size_t>(j * w.channels() + c)] = stored[static_cast<size_t>(c * w.taps + j)];
      }
    }
    return in_.upload(turned);
  }

  Result<MoeWeights> read_moe(const std::string& prefix) {
    const Config& c = config_;
    MoeWeights w;
    w.experts = c.experts;
    w.top_k = c.top_k;
    WEIR_TRY(w.router, in_.pack({{prefix + "gate", c.experts}, {prefix + "shared_expert_gate", 1}}, c.hidden,
                                Use::kRouter));
    WEIR_TRY(std::vector<ExpertSource> experts, read_experts(prefix));
    WEIR_TRY(ExpertSource shared, read_shared_expert(prefix + "shared_expert."));
    experts.push_back(shared);
    WEIR_TRY(w.expert, in_.steps().pack_experts(experts));
    return w;
  }

  // Hugging Face fuses gate and up of an expert, gate first; MLX keeps three stacks.
  Result<std::vector<ExpertSource>> read_experts(const std::string& prefix) {
    const int64_t count = config_.experts, wide = config_.intermediate, hidden = config_.hidden;
    if (checkpoint_.has(prefix + "experts.gate_up_proj")) {
      WEIR_TRY(const Matrix gate_up, in_.matrix(prefix + "experts.gate_up_proj", count * 2 * wide, hidden));
      WEIR_TRY(const Matrix down, in_.matrix(prefix + "experts.down_proj", count * hidden, wide));
      return split_experts(gate_up, down, count, wide);
    }
    std::vector<ExpertSource> experts(static_cast<size_t>(count));
    WEIR_TRY(const Matrix gate, in_.matrix(prefix + "switch_mlp.gate_proj", count * wide, hidden));
    WEIR_TRY(const Matrix up, in_.matrix(prefix + "switch_mlp.up_proj", count * wide, hidden));
    WEIR_TRY(const Matrix down, in_.matrix(prefix + "switch_mlp.down_proj", count * hidden, wide));
    for (int64_t e = 0; e < count; ++e) {
      experts[static_cast<size_t>(e)] = {gate.slice(e * wide, wide), up.slice(e * wide, wide),
                                         down.slice(e * hidden, hidden)};
    }
    return experts;
  }

  Result<ExpertSource> read_shared_expert(const std::string& prefix) {
    ExpertSource shared;
    WEIR_TRY(shared.gate, in_.matrix(prefix + "gate_proj", config_.intermediate, config_.hidden));
    WEIR_TRY(shared.up, in_.matrix(prefix + "up_proj", config_.intermediate, config_.hidden));
    WEIR_TRY(shared.down, in_.matrix(prefix + "down_proj", config_.hidden, config_.intermediate));
    return shared;
  }

  // A norm gain that raw Hugging Face files store as gain - 1.
  Result<Vector> shifted_gain(const std::string& name, int64_t count) {
    WEIR_TRY(std::vector<float> gain, checkpoint_.values(name, count));
    if (checkpoint_.norms_are_zero_centred()) {
      for (float& g : gain) g += 1.0f;
    }
    return in_.upload(gain);
  }

  Checkpoint& checkpoint_;
  const Config& config_;
  WeightReader in_;
};

}  // namespace

bool has_draft_head(const Checkpoint& checkpoint) {
  return checkpoint.has("mtp.fc.weight");
}

Result<Weights> load_weights(Checkpoint& checkpoint, const Config& config, Steps& steps, bool draft_head,
                             const Progress& progress) {
  return Reader(checkpoint, config, steps, progress).read(draft_head);
}

}  // namespace weir::qwen
