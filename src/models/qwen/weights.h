// The weights of a Qwen3.6 model, stacked by use and packed for one backend.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/steps.h"
#include "models/qwen/config.h"

namespace weir::qwen {

// Exactly one of `attention` and `delta` is set.
struct Layer {
  Vector norm_in;  // [H]
  std::optional<AttentionWeights> attention;
  std::optional<DeltaWeights> delta;
  int64_t index = 0;  // among the layers of its kind: where its state is
  Vector norm_post;   // [H]
  MoeWeights moe;
};

struct Weights {
  std::unique_ptr<Embedding> embedding;  // [V, H]
  std::vector<Layer> layers;
  Vector norm;                   // [H]
  std::unique_ptr<Linear> head;  // [V, H]
};

// Reads every tensor of the checkpoint and packs it. Progress counts bytes of the checkpoint. Errors: a
// missing tensor, one of the wrong shape, or one that nobody reads, each by name.
Result<Weights> load_weights(Checkpoint& checkpoint, const Config& config, Steps& steps,
                             const Progress& progress);

}  // namespace weir::qwen
