// The weights of one layer of a Qwen3.6 model.
#pragma once

#include <optional>

#include "kernels/steps.h"

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

}  // namespace weir::qwen
