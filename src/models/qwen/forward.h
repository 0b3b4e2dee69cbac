// The forward pass of Qwen3.6: the same page for one token, a batch of sequences and a prefill chunk.
#pragma once

#include "kernels/steps.h"
#include "models/qwen/weights.h"
#include "models/qwen/workspace.h"

namespace weir::qwen {

// Runs the batch through all layers; `pass` has its T rows and wanted logits. Writes the states of the
// batch's sequences but does not advance their positions.
void forward(Steps& steps, const Weights& weights, float norm_epsilon, const Batch& batch, const Pass& pass);

// Runs pairs through the draft head: row t of the batch has the token, row t of `hidden` [T, H] float32 the
// hidden row before it. The batch's sequences are the head's own.
void draft_forward(Steps& steps, const Weights& weights, float norm_epsilon, const Batch& batch, Rows hidden,
                   const Pass& pass);

}  // namespace weir::qwen
