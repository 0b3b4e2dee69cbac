#include "models/qwen/config.h"

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/json_fields.h"
#include "models/config_fields.h"

namespace weir::qwen {
namespace {

using Json = nlohmann::json;

Error unsupported(const std::string& where, const std::string& what) {
  return {Code::kUnsupported, where + ": " + what, "weir runs the Qwen3.6-35B-A3B architecture only"};
}

Status read_sizes(const Json& text, const std::string& where, Config& c) {
  const SizeField fields[] = {
      {"num_hidden_layers", &c.layers},
      {"hidden_size", &c.hidden},
      {"vocab_size", &c.vocabulary},
      {"max_position_embeddings", &c.context},
      {"num_attention_heads", &c.heads},
      {"num_key_value_heads", &c.kv_heads},
      {"head_dim", &c.head_dim},
      {"linear_num_key_heads", &c.key_heads},
      {"linear_num_value_heads", &c.value_heads},
      {"linear_key_head_dim", &c.key_dim},
      {"linear_value_head_dim", &c.value_dim},
      {"linear_conv_kernel_dim", &c.conv_taps},
      {"num_experts", &c.experts},
      {"num_experts_per_tok", &c.top_k},
      {"moe_intermediate_size", &c.intermediate},
  };
  return weir::read_sizes(text, fields, where);
}

Status check_sizes(const Json& text, const std::string& where, const Config& c) {
  WEIR_TRY(const int64_t shared, json_int(text, "shared_expert_intermediate_size", 1, kMaxConfigSize, where));
  if (shared != c.intermediate) {
    return unsupported(where, "shared_expert_intermediate_size " + std::to_string(shared) +
                                  " differs from moe_intermediate_size " + std::to_string(c.intermediate));
  }
  if (c.heads % c.kv_heads != 0)
    return unsupported(where, "num_attention_heads is not a multiple of num_key_value_heads");
  if (c.value_heads % c.key_heads != 0) {
    return unsupported(where, "linear_num_value_heads is not a multiple of linear_num_key_heads");
  }
  if (c.top_k > c.experts) return unsupported(where, "num_experts_per_tok is larger than num_experts");
  if (c.conv_taps < 2) return unsupported(where, "linear_conv_kernel_dim is smaller than 2");
  const int64_t granular[] = {c.hidden, c.head_dim, c.key_dim, c.value_dim, c.intermediate};
  for (const int64_t size : granular) {
    if (size % 32 != 0) {
      return unsupported(
          where, "a hidden, head or expert size of " + std::to_string(size) + " is not a multiple of 32");
    }
  }
  return {};
}

// Fields whose other values would change the arithmetic.
Status check_arithmetic(const Json& text, const std::string& where) {
  WEIR_TRY(const std::string activation, json_string_or(text, "hidden_act", where, "silu"));
  if (activation != "silu") return unsupported(where, "hidden_act is " + activation + ", expected silu");
  WEIR_TRY(const bool bias, json_bool_or(text, "attention_bias", where, false));
  if (bias) return unsupported(where, "attention_bias is true");
  WEIR_TRY(const bool gate, json_bool_or(text, "attn_output_gate", where, true));
  if (!gate) return unsupported(where, "attn_output_gate is false");
  WEIR_TRY(const bool tied, json_bool_or(text, "tie_word_embeddings", where, false));
  if (tied) return unsupported(where, "tie_word_embeddings is true");
  return {};
}

// `rope_parameters` of newer files; older ones have the fields at the top.
Status read_rope(const Json& text, const std::string& where, Config& c) {
  const Json* rope = &text;
  if (json_has(text, "rope_parameters")) {
    WEIR_TRY(rope, json_object(text, "rope_parameters", where));
  }
  WEIR_TRY(const std::string older, json_string_or(*rope, "type", where, "default"));
  WEIR_TRY(const std::string type, json_string_or(*rope, "rope_type", where, older));
  if (rope != &text && type != "default")
    return unsupported(where, "rope_type is " + type + ", expected default");
  WEIR_TRY(const double theta, json_double(*rope, "rope_theta", 1.0, 1e12, where));
  WEIR_TRY(const double outer, json_double_or(text, "partial_rotary_factor", 0.0, 1.0, where, 1.0));
  WEIR_TRY(const double factor, json_double_or(*rope, "partial_rotary_factor", 0.0, 1.0, where, outer));
  c.rope_theta = static_cast<float>(theta);
  c.rotary_dim = static_cast<int64_t>(static_cast<double>(c.head_dim) * factor);
  if (c.rotary_dim < 2 || c.rotary_dim % 2 != 0) {
    return unsupported(where,
                       "partial_rotary_factor leaves " + std::to_string(c.rotary_dim) + " rotary dimensions");
  }
  return {};
}

// `layer_types`, or one attention layer in every `full_attention_interval`.
Status read_mixers(const Json& text, const std::string& where, Config& c) {
  if (!json_has(text, "layer_types")) {
    WEIR_TRY(const int64_t interval, json_int(text, "full_attention_interval", 1, kMaxConfigSize, where));
    for (int64_t i = 0; i < c.layers; ++i) {
      c.mixers.push_back((i + 1) % interval == 0 ? Mixer::kAttention : Mixer::kDeltaNet);
    }
    return {};
  }
  WEIR_TRY(const std::vector<std::string> types, read_layer_types(text, c.layers, where));
  for (const std::string& type : types) {
    if (type != "linear_attention" && type != "full_attention")
      return unsupported(where, "layer type " + type);
    c.mixers.push_back(type == "full_attention" ? Mixer::kAttention : Mixer::kDeltaNet);
  }
  return {};
}

}  // namespace

Result<Config> read_config(const Checkpoint& checkpoint) {
  const std::string where = checkpoint.folder() + "/config.json";
  const Json* text = &checkpoint.config();
  if (json_has(*text, "text_config")) {
    WEIR_TRY(text, json_object(*text, "text_config", where));
  }
  WEIR_TRY(const std::string type, json_string_or(*text, "model_type", where, "(none)"));
  if (type != "qwen3_5_moe_text" && type != "qwen3_5_moe") {
    return unsupported(where, "model_type is " + type + ", expected qwen3_5_moe");
  }
  Config c;
  WEIR_RETURN_IF_ERROR(read_sizes(*text, where, c));
  WEIR_RETURN_IF_ERROR(check_sizes(*text, where, c));
  WEIR_RETURN_IF_ERROR(check_arithmetic(*text, where));
  WEIR_RETURN_IF_ERROR(read_rope(*text, where, c));
  WEIR_RETURN_IF_ERROR(read_mixers(*text, where, c));
  WEIR_TRY(const double epsilon, json_double_or(*text, "rms_norm_eps", 0.0, 1.0, where, 1e-6));
  c.norm_epsilon = static_cast<float>(epsilon);
  return c;
}

}  // namespace weir::qwen
