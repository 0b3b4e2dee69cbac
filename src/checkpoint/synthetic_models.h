// The models that synthetic checkpoints are made of, each in a file of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir::synthetic {

inline constexpr int64_t kQwenLayers = 40;
inline constexpr int64_t kDiffusionGemmaLayers = 30;

// 1 <= layers <= the model's; `origin` stands for the folder in messages.
Result<Checkpoint> qwen(std::string origin, int64_t layers);
Result<Checkpoint> diffusion_gemma(std::string origin, int64_t layers);

}  // namespace weir::synthetic
