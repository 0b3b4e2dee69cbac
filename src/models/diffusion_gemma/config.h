// The shape of a DiffusionGemma model, read from config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir::diffusion_gemma {

// Layers of one kind share these.
struct AttentionShape {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // positions that a committed token sees; 0: all
  int64_t rotated_pairs = 0;
  bool values_are_keys = false;
  float rope_theta = 0;
};

struct Config {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions the model was trained for
  int64_t canvas = 0;   // positions denoised together
  float norm_epsilon = 0;
  float softcap = 0;          // of the logits
  float embedding_scale = 0;  // sqrt(hidden), rounded to bfloat16 as the model was trained with
  int64_t heads = 0;
  AttentionShape sliding, full;
  std::vector<bool> is_full;  // one a layer
  int64_t dense = 0;          // width of the dense MLP and of self-conditioning
  int64_t experts = 0, top_k = 0, intermediate = 0;

  const AttentionShape& attention(int64_t layer) const {
    return is_full[static_cast<size_t>(layer)] ? full : sliding;
  }
};

// True when config.json says that the checkpoint is of this architecture.
bool is_diffusion_gemma(const Checkpoint& checkpoint);

// Errors name config.json and the field; what weir does not compute (another rope type, biases, other
// activations) is kUnsupported.
Result<Config> read_config(const Checkpoint& checkpoint);

}  // namespace weir::diffusion_gemma
