#include "checkpoint/synthetic.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/random.h"

namespace weir {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kGroup = 64;

// The text model of Qwen3.6-35B-A3B, by its config.json.
constexpr int64_t kHidden = 2048, kVocabulary = 248320, kExperts = 256, kIntermediate = 512;
constexpr int64_t kHeads = 16, kKvHeads = 2, kHeadDim = 256;
constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kDeltaDim = 128, kTaps = 4;
constexpr int64_t kLayers = 40, kAttentionInterval = 4;

// The largest packed matrices are embedding and head, at two values a byte; matrices start at different
// places of the pool, so it is larger by the distance between the first and the last place.
constexpr size_t kSpread = size_t{16} << 20;
constexpr size_t kPoolBytes = static_cast<size_t>(kVocabulary * kHidden / 2) + kSpread;

struct Memory {
  std::vector<uint32_t> pool;
  std::map<float, std::vector<uint16_t>> constants;
  std::deque<std::vector<uint16_t>> small;
};

class Builder {
 public:
  explicit Builder(Memory& memory) : memory_(memory) {
    memory_.pool.resize(kPoolBytes / sizeof(uint32_t));
    for (size_t i = 0; i + 4 <= memory_.pool.size(); i += 4) {
      const auto words =
          random_words({.seed = kSeed, .step = static_cast<uint32_t>(i), .purpose = Purpose::kSynthetic});
      std::memcpy(&memory_.pool[i], words.data(), sizeof(words));
    }
  }

  std::vector<TensorView> take() { return std::move(tensors_); }

  // [stack, rows, cols] in affine 4 or 8 bits: uniform q, and scale and bias such that w has mean 0 and
  // variance 1 / cols.
  void matrix(const std::string& module, int64_t stack, int64_t rows, int64_t cols, int bits) {
    std::vector<int64_t> shape{rows, cols * bits / 32};
    std::vector<int64_t> scale_shape{rows, cols / kGroup};
    if (stack > 0) {
      shape.insert(shape.begin(), stack);
      scale_shape.insert(scale_shape.begin(), stack);
    }
    TensorView weight{module + ".weight", Dtype::kU32, shape, {}};
    const auto bytes = static_cast<size_t>(std::max<int64_t>(stack, 1) * rows * cols * bits / 8);
    weight.data = std::as_bytes(std::span(memory_.pool)).subspan(next_offset(), bytes);
    tensors_.push_back(weight);

    const double levels = (1 << bits) - 1;
    const double deviation =
        std::sqrt((levels * (levels + 2)) / 12.0);  // of a uniform integer in [0, levels]
    const double scale = 1.0 / (deviation * std::sqrt(static_cast<double>(cols)));
    const int64_t count = std::max<int64_t>(stack, 1) * rows * cols / kGroup;
    constant(module + ".scales", scale_shape, count, static_cast<float>(scale));
    constant(module + ".biases", scale_shape, count, static_cast<float>(-scale * levels / 2));
  }

  // `count` values spread evenly over [low, high].
  void vector(const std::string& name, std::vector<int64_t> shape, int64_t count, float low, float high) {
    std::vector<uint16_t>& values = memory_.small.emplace_back(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      const float u = random_uniform({.seed = kSeed, .block = 1, .step = static_cast<uint32_t>(i)});
      values[i] = to_bf16(low + u * (high - low)).bits;
    }
    tensors_.push_back({name, Dtype::kBf16, std::move(shape), std::as_bytes(std::span(values))});
  }

 private:
  // Starting points step through the spread in a fixed odd stride of words.
  size_t next_offset() {
    offset_ = (offset_ + 1234567 * sizeof(uint32_t)) % kSpread;
    return offset_;
  }

  // Scales and biases of all matrices with the same value share one array, as long as the longest.
  void constant(const std::string& name, std::vector<int64_t> shape, int64_t count, float value) {
    const auto longest = static_cast<size_t>(kVocabulary * kHidden / kGroup);
    std::vector<uint16_t>& values = memory_.constants[value];
    if (values.empty()) values.assign(longest, to_bf16(value).bits);
    const auto bytes = std::as_bytes(std::span(values).first(static_cast<size_t>(count)));
    tensors_.push_back({name, Dtype::kBf16, std::move(shape), bytes});
  }

  Memory& memory_;
  std::vector<TensorView> tensors_;
  size_t offset_ = 0;
};

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

void add_experts(Builder& b, const std::string& p) {
  b.matrix(p + "gate", 0, kExperts, kHidden, 8);
  b.matrix(p + "shared_expert_gate", 0, 1, kHidden, 8);
  b.matrix(p + "switch_mlp.gate_proj", kExperts, kIntermediate, kHidden, 4);
  b.matrix(p + "switch_mlp.up_proj", kExperts, kIntermediate, kHidden, 4);
  b.matrix(p + "switch_mlp.down_proj", kExperts, kHidden, kIntermediate, 4);
  b.matrix(p + "shared_expert.gate_proj", 0, kIntermediate, kHidden, 4);
  b.matrix(p + "shared_expert.up_proj", 0, kIntermediate, kHidden, 4);
  b.matrix(p + "shared_expert.down_proj", 0, kHidden, kIntermediate, 4);
}

nlohmann::json qwen_config(int64_t layers) {
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

Result<Checkpoint> qwen(std::string origin, int64_t layers) {
  const auto memory = std::make_shared<Memory>();
  Builder b(*memory);
  const std::string root = "language_model.model.";
  b.matrix(root + "embed_tokens", 0, kVocabulary, kHidden, 4);
  b.matrix("language_model.lm_head", 0, kVocabulary, kHidden, 4);
  b.vector(root + "norm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string p = root + "layers." + std::to_string(i) + ".";
    b.vector(p + "input_layernorm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
    b.vector(p + "post_attention_layernorm.weight", {kHidden}, kHidden, 0.9f, 1.1f);
    if ((i + 1) % kAttentionInterval == 0) {
      add_attention(b, p + "self_attn.");
    } else {
      add_delta_net(b, p + "linear_attn.");
    }
    add_experts(b, p + "mlp.");
  }
  const std::vector<TensorView> tensors = b.take();
  return Checkpoint::from_memory(std::move(origin), qwen_config(layers), tensors, memory);
}

Error unknown(std::string_view reference) {
  return {Code::kInvalidArgument, fmt::format("unknown synthetic model '{}'", reference),
          "known: synthetic:qwen3.6-35b-a3b[,layers=1 to 40]"};
}

}  // namespace

Result<Checkpoint> synthetic_checkpoint(std::string_view reference) {
  std::string_view rest = reference;
  if (!rest.starts_with(kSyntheticPrefix)) return unknown(reference);
  rest.remove_prefix(kSyntheticPrefix.size());
  const size_t comma = rest.find(',');
  if (rest.substr(0, comma) != "qwen3.6-35b-a3b") return unknown(reference);
  int64_t layers = kLayers;
  if (comma != std::string_view::npos) {
    constexpr std::string_view kOption = "layers=";
    const std::string_view option = rest.substr(comma + 1);
    if (!option.starts_with(kOption)) return unknown(reference);
    const char* end = option.data() + option.size();
    const auto [stop, error] = std::from_chars(option.data() + kOption.size(), end, layers);
    if (error != std::errc() || stop != end || layers < 1 || layers > kLayers) return unknown(reference);
  }
  return qwen(std::string(reference), layers);
}

}  // namespace weir
