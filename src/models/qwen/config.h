// The shape of a Qwen3.6 model, read from config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir::qwen {

enum class Mixer { kDeltaNet, kAttention };

struct Config {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t vocabulary = 0;  // rows of embedding and head; the tokenizer may use fewer
  int64_t context = 0;     // positions the model was trained for
  float norm_epsilon = 0;
  std::vector<Mixer> mixers;  // one a layer

  int64_t heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  float rope_theta = 0;

  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv_taps = 0;

  int64_t experts = 0, top_k = 0, intermediate = 0;
};

// Errors name config.json and the field; what weir does not compute (another rope type, biases, other
// activations) is kUnsupported.
Result<Config> read_config(const Checkpoint& checkpoint);

}  // namespace weir::qwen
