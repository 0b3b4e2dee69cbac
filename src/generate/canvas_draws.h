// The random numbers of a canvas: counter-based, so a seed repeats an answer whatever runs beside it.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace weir {

class CanvasDraws {
 public:
  // `canvas` tells apart the canvases drawn with one seed; tokens lie in [0, vocabulary).
  CanvasDraws(uint64_t seed, uint32_t canvas, int64_t vocabulary)
      : seed_(seed), canvas_(canvas), vocabulary_(static_cast<uint64_t>(vocabulary)) {}
  virtual ~CanvasDraws() = default;

  // What a position holds before the first step.
  virtual int32_t initial(int64_t position) const { return token(Purpose::kCanvas, 0, position); }

  // What the step accepts there, if it does; `sampled` is the head's own draw.
  virtual int32_t candidate(int64_t step, int64_t position, int32_t sampled) const {
    (void)step, (void)position;
    return sampled;
  }

  // What a position that is not accepted holds after the step.
  virtual int32_t renoise(int64_t step, int64_t position) const {
    return token(Purpose::kRenoise, step, position);
  }

  // For the head's draw.
  DrawKey key(int64_t step, int64_t position) const {
    return {.seed = seed_,
            .block = canvas_,
            .step = static_cast<uint32_t>(step),
            .position = static_cast<uint32_t>(position),
            .purpose = Purpose::kDenoise};
  }

 private:
  // Uniform but for a bias below vocabulary / 2^32.
  int32_t token(Purpose purpose, int64_t step, int64_t position) const {
    DrawKey draw = key(step, position);
    draw.purpose = purpose;
    return static_cast<int32_t>(random_words(draw)[0] * vocabulary_ >> 32);
  }

  uint64_t seed_;
  uint32_t canvas_;
  uint64_t vocabulary_;
};

}  // namespace weir
