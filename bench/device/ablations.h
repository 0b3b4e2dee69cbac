// What single design choices of the CUDA backend are worth: each against what other engines do instead.
#pragma once

#include "models/qwen/model.h"

namespace weir::bench {

// On the first DeltaNet layer of a model with 4-bit experts, whose max_rows is at least 4,096.
void print_ablations(qwen::Model& model);

}  // namespace weir::bench
