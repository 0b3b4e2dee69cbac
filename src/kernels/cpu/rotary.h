// Rotary embedding: pair i of a head at position p turns by p * theta^(-2 i / span).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention_kernels.h"

namespace weir::cpu {

class Rotary {
 public:
  // Elements (i, i + distance) of a head turn for i < pairs, the others do not. `frequencies` [pairs] is
  // memory that outlives this.
  Rotary(float* frequencies, float theta, int64_t span, int64_t pairs, int64_t distance)
      : frequencies_(frequencies), pairs_(pairs), distance_(distance) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(span);
      frequencies[i] = static_cast<float>(std::pow(static_cast<double>(theta), exponent));
    }
  }

  // Filled into `turns` [2, pairs]. The angle is a float32 product, as in the originals; its cosine and sine
  // are then exact to float32, however far the position.
  Rotation at(int64_t position, float* turns) const {
    float* sines = turns + pairs_;
    for (int64_t i = 0; i < pairs_; ++i) {
      const double angle = static_cast<float>(position) * frequencies_[i];
      turns[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
    return {turns, sines, pairs_, distance_};
  }

 private:
  const float* frequencies_;
  int64_t pairs_;
  int64_t distance_;
};

}  // namespace weir::cpu
