// The forward pass of DiffusionGemma: one page for a prefill chunk, a committed canvas, a denoising step, and
// any of these together.
#pragma once

#include "models/diffusion_gemma/weights.h"
#include "models/diffusion_gemma/workspace.h"

namespace weir::diffusion_gemma {

// Runs the batch through all layers; `pass` has its T rows. Causal rows (the encoder: committed tokens)
// append keys and values to their sequences; canvas rows (the decoder) only read them, and see each other in
// both directions. As a layer's canvas rows need committed keys and values of that layer alone, both go
// through in one pass. Does not advance the sequences' positions.
void forward(Steps& steps, const Weights& weights, const Config& config, const CanvasBatch& batch,
             const Pass& pass);

}  // namespace weir::diffusion_gemma
