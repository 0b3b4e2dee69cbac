// Which columns of a model's matrices matter, by what a text makes of their inputs.
#pragma once

#include "checkpoint/quantize.h"
#include "kernels/observe/input_energy.h"
#include "models/diffusion_gemma/weights.h"
#include "models/qwen/weights.h"

namespace weir::cli {

// Sums of squares of the inputs, by the modules' names in MLX's layout. An expert that saw no row gets what
// all of its stack saw, and every column a hundredth of the mean beside its own, since a text does not show
// everything.
Importance importance_of(const qwen::Weights& weights, const InputEnergy& energy);
Importance importance_of(const diffusion_gemma::Weights& weights, const InputEnergy& energy);

}  // namespace weir::cli
