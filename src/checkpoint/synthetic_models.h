// The models that synthetic checkpoints are made of, each in a file of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir::synthetic {

inline constexpr int64_t kQwenLayers = 40;
inline constexpr int64_t kDiffusionGemmaLayers = 30;

struct Size {
  int64_t layers = 0;       // 1 to the model's
  int64_t expert_bits = 0;  // 2, 3 or 4: of routed experts
};

// `origin` stands for the folder in messages.
Result<Checkpoint> qwen(std::string origin, Size size);
Result<Checkpoint> diffusion_gemma(std::string origin, Size size);

}  // namespace weir::synthetic
