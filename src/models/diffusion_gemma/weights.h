// The weights of a DiffusionGemma model, stacked by use and packed for one backend.
#pragma once

#include <memory>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/diffusion_steps.h"
#include "models/diffusion_gemma/config.h"

namespace weir::diffusion_gemma {

struct Layer {
  Vector norm_in;  // [H]
  WindowedAttentionWeights attention;
  Vector norm_attention;            // [H], of attention's result
  Vector norm_dense;                // [H], before the dense MLP
  std::unique_ptr<Linear> gate_up;  // [2 F, H]
  std::unique_ptr<Linear> down;     // [H, F]
  Vector router_gain;               // [H], router.scale / sqrt(H)
  Vector expert_scale;              // [E]
  Vector norm_experts;              // [H], before the experts
  MoeWeights moe;
  FeedForwardNorms norms_out;
  LayerScalars scalars;
};

// Adds to a canvas's embeddings what the last pass expects them to be.
struct SelfConditioning {
  Vector norm;                      // [H]
  std::unique_ptr<Linear> gate_up;  // [2 F, H]
  std::unique_ptr<Linear> down;     // [H, F]
};

struct Weights {
  std::unique_ptr<Vocabulary> vocabulary;  // [V, H]
  SelfConditioning condition;
  Vector ones;  // [H], the gain of a norm that has none
  std::vector<Layer> layers;
  Vector norm;  // [H]
};

// Reads every tensor of the checkpoint and packs it. `steps` must have diffusion steps. Progress counts bytes
// of the checkpoint. Errors: a missing tensor, one of the wrong shape, or one that nobody reads, each by
// name.
Result<Weights> load_weights(Checkpoint& checkpoint, const Config& config, Steps& steps,
                             const Progress& progress);

}  // namespace weir::diffusion_gemma
