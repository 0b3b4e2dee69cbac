#include "models/diffusion_gemma/config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/bf16.h"
#include "checkpoint/json_fields.h"
#include "kernels/state.h"
#include "models/config_fields.h"

namespace weir::diffusion_gemma {
namespace {

using Json = nlohmann::json;

Error unsupported(const std::string& where, const std::string& what) {
  return {Code::kUnsupported, where + ": " + what, "weir runs the DiffusionGemma-26B-A4B architecture only"};
}

Status read_sizes(const Json& text, const std::string& where, Config& c) {
  const SizeField fields[] = {
      {"num_hidden_layers", &c.layers},
      {"hidden_size", &c.hidden},
      {"vocab_size", &c.vocabulary},
      {"max_position_embeddings", &c.context},
      {"num_attention_heads", &c.heads},
      {"num_key_value_heads", &c.sliding.kv_heads},
      {"num_global_key_value_heads", &c.full.kv_heads},
      {"head_dim", &c.sliding.head_dim},
      {"global_head_dim", &c.full.head_dim},
      {"sliding_window", &c.sliding.window},
      {"intermediate_size", &c.dense},
      {"num_experts", &c.experts},
      {"top_k_experts", &c.top_k},
      {"moe_intermediate_size", &c.intermediate},
  };
  return weir::read_sizes(text, fields, where);
}

Status check_sizes(const std::string& where, const Config& c) {
  for (const AttentionShape* shape : {&c.sliding, &c.full}) {
    if (c.heads % shape->kv_heads != 0) {
      return unsupported(where, "num_attention_heads is not a multiple of a number of key-value heads");
    }
  }
  if (c.top_k > c.experts) return unsupported(where, "top_k_experts is larger than num_experts");
  if (c.sliding.window < 2) return unsupported(where, "sliding_window is smaller than 2");
  if (c.vocabulary < 2) return unsupported(where, "vocab_size is smaller than 2");
  for (const int64_t size : {c.hidden, c.sliding.head_dim, c.full.head_dim, c.intermediate, c.dense}) {
    if (size % 32 != 0) {
      return unsupported(where, "a hidden, head, MLP or expert size of " + std::to_string(size) +
                                    " is not a multiple of 32");
    }
  }
  return {};
}

// Fields whose other values would change the arithmetic.
Status check_arithmetic(const Json& text, const std::string& where) {
  WEIR_TRY(const std::string activation,
           json_string_or(text, "hidden_activation", where, "gelu_pytorch_tanh"));
  if (activation != "gelu_pytorch_tanh") {
    return unsupported(where, "hidden_activation is " + activation + ", expected gelu_pytorch_tanh");
  }
  WEIR_TRY(const bool bias, json_bool_or(text, "attention_bias", where, false));
  if (bias) return unsupported(where, "attention_bias is true");
  WEIR_TRY(const bool tied, json_bool_or(text, "tie_word_embeddings", where, true));
  if (!tied) return unsupported(where, "tie_word_embeddings is false");
  WEIR_TRY(const bool shared, json_bool_or(text, "attention_k_eq_v", where, true));
  if (!shared) return unsupported(where, "attention_k_eq_v is false");
  for (const char* key : {"hidden_size_per_layer_input", "num_kv_shared_layers"}) {
    WEIR_TRY(const int64_t value, json_int_or(text, key, 0, kMaxConfigSize, where, 0));
    if (value != 0) return unsupported(where, std::string(key) + " is " + std::to_string(value));
  }
  return {};
}

// The angle of pair i is position * theta^(-2 i / head_dim); a "proportional" rope turns only the first part
// of the pairs, and its spectrum is cut off, not stretched.
Status read_rope(const Json& ropes, const char* kind, const std::string& where, AttentionShape& shape) {
  WEIR_TRY(const Json* rope, json_object(ropes, kind, where));
  WEIR_TRY(const std::string type, json_string_or(*rope, "rope_type", where, "default"));
  if (type != "default" && type != "proportional") {
    return unsupported(where, std::string(kind) + " has rope_type " + type);
  }
  WEIR_TRY(const double theta, json_double(*rope, "rope_theta", 1.0, 1e12, where));
  WEIR_TRY(const double factor, json_double_or(*rope, "partial_rotary_factor", 0.0, 1.0, where, 1.0));
  if (type == "default" && factor != 1.0) {
    return unsupported(where, std::string(kind) + " has a partial_rotary_factor with the default rope");
  }
  shape.rope_theta = static_cast<float>(theta);
  shape.rotated_pairs = static_cast<int64_t>(static_cast<double>(shape.head_dim) * factor / 2);
  return {};
}

Status read_kinds(const Json& text, const std::string& where, Config& c) {
  WEIR_TRY(const std::vector<std::string> types, read_layer_types(text, c.layers, where));
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      return unsupported(where, "layer type " + type);
    }
    c.is_full.push_back(type == "full_attention");
  }
  return {};
}

}  // namespace

bool is_diffusion_gemma(const Checkpoint& checkpoint) {
  const auto type = json_string_or(checkpoint.config(), "model_type", "", "");
  return type.ok() && *type == "diffusion_gemma";
}

Result<Config> read_config(const Checkpoint& checkpoint) {
  const std::string where = checkpoint.config_path();
  if (!is_diffusion_gemma(checkpoint)) {
    return unsupported(where, "model_type is not diffusion_gemma");
  }
  const Json& top = checkpoint.config();
  WEIR_TRY(const Json* text, json_object(top, "text_config", where));
  Config c;
  WEIR_RETURN_IF_ERROR(read_sizes(*text, where, c));
  WEIR_RETURN_IF_ERROR(check_sizes(where, c));
  WEIR_RETURN_IF_ERROR(check_arithmetic(*text, where));
  WEIR_TRY(const Json* ropes, json_object(*text, "rope_parameters", where));
  WEIR_RETURN_IF_ERROR(read_rope(*ropes, "sliding_attention", where, c.sliding));
  WEIR_RETURN_IF_ERROR(read_rope(*ropes, "full_attention", where, c.full));
  c.full.values_are_keys = true;
  WEIR_RETURN_IF_ERROR(read_kinds(*text, where, c));
  WEIR_TRY(c.canvas, json_int(top, "canvas_length", 1, kKvPage, where));
  WEIR_TRY(const double epsilon, json_double_or(*text, "rms_norm_eps", 0.0, 1.0, where, 1e-6));
  WEIR_TRY(const double softcap, json_double(*text, "final_logit_softcapping", 1e-3, 1e6, where));
  c.norm_epsilon = static_cast<float>(epsilon);
  c.softcap = static_cast<float>(softcap);
  c.embedding_scale = to_float(to_bf16(std::sqrt(static_cast<float>(c.hidden))));
  return c;
}

}  // namespace weir::diffusion_gemma
