// What a canvas looks like after a denoising step, for those who watch.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/diffusion_steps.h"

namespace weir {

// Views are valid during the call. C is the length of the canvas.
struct CanvasFrame {
  int64_t canvas = 0;  // number of the canvas in the answer, from 0
  int64_t step = 0;    // passes over it so far
  bool last = false;   // the canvas is committed: `best` is the text that stays

  std::span<const int32_t> tokens;    // [C] input of the next pass
  std::span<const int32_t> best;      // [C] what would be committed now
  std::span<const float> confidence;  // [C] probability of `best` when the position was last forwarded
  std::span<const float> entropy;     // [C] nats, likewise
  std::span<const uint8_t> accepted;  // [C] 1 where the step kept a token
  int64_t answer_length = 0;          // positions up to the first token of `best` that ends the answer, or C
  int64_t rows = 0;                   // forwarded in this pass
  double seconds = 0;                 // of this pass
};

}  // namespace weir
