// Which positions of a canvas keep a token after a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/denoising.h"
#include "kernels/diffusion_steps.h"

namespace weir {

// One flag for each belief; at least one is set when there are beliefs. `step` counts from 0.
std::vector<uint8_t> accepted(const Acceptance& rule, std::span<const Belief> beliefs, int64_t step);

}  // namespace weir
