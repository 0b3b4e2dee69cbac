// The rules of sampling, written the slow way: every step on the whole vocabulary, in long double, with full
// sorts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/sampling.h"

namespace weir::test {

struct Kept {
  int32_t token = 0;
  long double probability = 0;
};

struct History {
  std::vector<int32_t> prompt;
  std::vector<int32_t> generated;
};

// The tokens that may be drawn, in the order in which the draw looks at them, with their final probabilities.
// `allowed` is empty or one flag for each token. Requires a temperature above 0.
std::vector<Kept> reference_distribution(std::span<const float> logits, const Sampling& sampling,
                                         const History& history, const std::vector<bool>& allowed);

}  // namespace weir::test
