// Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A draw is a pure function of its key, so a seed repeats an answer whatever the thread count, the
// batch or the order of evaluation.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

// What a draw is for. Two purposes never share random numbers.
enum class Purpose : uint32_t { kSampleToken = 1, kCanvas = 2, kRenoise = 3, kSynthetic = 4, kDenoise = 5 };

struct DrawKey {
  uint64_t seed = 0;
  uint32_t block = 0;     // sequence or canvas number
  uint32_t step = 0;      // token or denoising step
  uint32_t position = 0;  // row of the canvas, or element
  Purpose purpose = Purpose::kSampleToken;
};

// Four independent uniform 32-bit words for the key.
std::array<uint32_t, 4> random_words(const DrawKey& key);

// Uniform in [0, 1) with 24 random bits, so that the value is exact in float32.
float random_uniform(const DrawKey& key);

}  // namespace weir
