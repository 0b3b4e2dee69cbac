// What the model believes about a position, from its logits.
#pragma once

#include <vector>

#include "kernels/diffusion_steps.h"

namespace weir::reference {

// The belief of logits y, already capped and divided by the temperature.
Belief belief_of(const std::vector<double>& y, const DrawKey& draw);

// p = softmax(y), with all but the `kept` most probable tokens set to 0; kAllTokens keeps all.
std::vector<double> kept_probabilities(const std::vector<double>& y, int32_t kept);

}  // namespace weir::reference
