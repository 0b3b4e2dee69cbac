// The steps, plain and obviously right: the oracle that every other backend is compared with.
//
// Weights are read in place from the checkpoint, one row at a time; sums run in float64 in index order and
// are rounded to float32 once. One thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/steps.h"

namespace weir {

// Shows what lies inside a step, one call a row and stage, in order. Stages of Qwen: "normed" (norm_project,
// norm_head); "q", "k", "v", "attention" (before the gate); "qkv" (after convolution and SiLU), "g" (log
// decay), "beta", "o" (before the norm). Of DiffusionGemma: "embedding", "soft"; "normed"; "q", "k", "v",
// "heads"; "attention", "attention_normed", "residual"; "gated_in", "gated" (norm_gated), "project";
// "router_ids", "router_logits", "router_weights"; "norm"; "experts_out"; "mlp_normed", "experts_normed",
// "feedforward_normed", "output"; "final", "logits" (capped).
using StageProbe = std::function<void(std::string_view stage, std::span<const float> row)>;

// The checkpoint whose matrices are packed must outlive the steps.
std::unique_ptr<Steps> make_reference_steps(StageProbe probe = {});

}  // namespace weir
