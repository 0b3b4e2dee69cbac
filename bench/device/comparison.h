// One step on the reference and on the GPU, with the same weights and inputs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/guarded.h"
#include "device/report.h"

namespace weir::bench {

// Relative error of a row. One bf16 rounding has 1.7e-3 at worst and 1.1e-3 in the mean; a product of many
// rows has three (x, W, result), others chain a few more.
inline constexpr double kLinearBound = 6e-3;
inline constexpr double kChainBound = 1.2e-2;
// One rounding, of the result: at most 2^-9 of each value.
inline constexpr double kRowBound = 3e-3;
// The recurrence feeds rounded keys back into its state.
inline constexpr double kRecurrenceBound = 8e-3;
// Logits that an exchanged expert may differ by: each is off by less than five standard deviations of 1.6e-3,
// from two roundings of 1.1e-3.
inline constexpr double kLogitGap = 1.6e-2;

// One backend's copy of what a case needs.
struct Side {
  Steps& steps;

  Vector vector(std::span<const float> values) const {
    Vector v;
    v.count = static_cast<int64_t>(values.size());
    v.values = std::move(*steps.allocate(values.size() * 4));
    steps.copy_in(v.values.data(), values.data(), values.size() * 4);
    return v;
  }
  Guarded activations(int64_t rows, int64_t cols, std::span<const float> values = {}) const {
    Guarded g(steps, rows, cols, steps.activation_dtype());
    if (!values.empty()) g.set(values);
    return g;
  }
  Guarded floats(int64_t rows, int64_t cols, std::span<const float> values = {}) const {
    Guarded g(steps, rows, cols, Dtype::kF32);
    if (!values.empty()) g.set(values);
    return g;
  }
};

// What a step computed: some rows.
using Outcome = std::vector<std::vector<float>>;

// Runs `step` on both and reports the worst row's relative error, as a share of its outcome's bound, in units
// of the first bound. `cols` are the outcomes' widths. Safe to call from several threads: the GPU's steps run
// one at a time.
void compare(Report& report, const std::string& name, Steps& cuda,
             const std::function<Outcome(const Side&)>& step, std::span<const int64_t> cols,
             std::span<const double> bounds);

}  // namespace weir::bench
