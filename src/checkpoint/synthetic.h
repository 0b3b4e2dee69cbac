// Checkpoints of the true shapes with random weights, in memory: for work on speed without a download.
#pragma once

#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir {

inline constexpr std::string_view kSyntheticPrefix = "synthetic:";

// `reference` is "synthetic:qwen3.6-35b-a3b[,layers=N][,experts=B]", N of 40 layers, or
// "synthetic:diffusiongemma-26b-a4b[,layers=N][,experts=B]", N of 30: MLX's 4-bit layout, the routed experts
// in 2, 3 or 4 bits, always the same weights. Quantised values of all matrices are windows of one random
// pool, so the source takes less than 1 GB while every packed matrix is as large as the real one. Streams
// keep sane magnitudes and routing is near-uniform. Error: kInvalidArgument, naming what is known.
Result<Checkpoint> synthetic_checkpoint(std::string_view reference);

}  // namespace weir
