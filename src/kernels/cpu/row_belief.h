// What the head learns about one row, panel by panel in ascending order.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cpu/head_kernels.h"
#include "kernels/diffusion_steps.h"

namespace weir::cpu {

// One panel of a row: y and w = e^(y - max), padded as HeadKernels::weigh_panel says.
struct WeighedPanel {
  int64_t index = 0;
  int64_t count = 0;
  const float* y = nullptr;
  const float* w = nullptr;
  PanelSums sums;

  int32_t first_id() const { return static_cast<int32_t>(index * kHeadPanel); }
};

// What a panel does to sums over e^(y - max) when it moves the maximum: those so far are multiplied with
// `before`, those of the panel, relative to its own maximum, with `panel`. One of them is 1.
struct Rescale {
  float before = 1;
  float panel = 1;
};

// Sums of a row over e^(y - max), in float64. Entropy is log(sum) - moment / sum: both terms are at least
// zero, so nothing cancels, however peaked the row is.
class RowBelief {
 public:
  Rescale add(const WeighedPanel& panel, const DrawKey& draw);
  Belief finish() const;

  // e^y / (sum over all tokens), after the last panel.
  double probability(double y) const;
  double sum() const { return sum_; }

 private:
  Rescale add_sums(const PanelSums& panel);
  void add_largest(const WeighedPanel& panel);
  void add_draw(const WeighedPanel& panel, const DrawKey& draw);

  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  double max_ = kNone;
  double sum_ = 0;
  double moment_ = 0;  // of e^(y - max) (y - max)
  double best_y_ = kNone, second_y_ = kNone;
  double draw_ = kNone;  // the largest w + Gumbel(u0)
  int32_t best_ = 0, second_ = 0, sampled_ = 0;
};

}  // namespace weir::cpu
