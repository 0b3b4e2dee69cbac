// What the bench of a diffusion model measures, and how it is reported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/pass_cost.h"

namespace weir::cli {

// Repeats of one pass. A pass takes as long as its steps.
struct PassSamples {
  PassShape shape;
  std::vector<PassCost> costs;
};

struct DiffusionSpeeds {
  int64_t prefix = 0, canvas = 0;     // tokens before the canvas, and its length
  std::vector<PrefillSpeed> prefill;  // the last one is the prefix
  std::vector<PassSamples> passes;    // over some slots of a canvas
  PassSamples step;                   // over all of them, as the reference denoises
  Sample sampler;                     // seconds of the step that are not the model's
};

struct LayerCounts {
  int64_t sliding = 0, full = 0;
};

struct Ceilings {
  double bandwidth = 0;  // GB/s
  double int8_peak = 0;  // GFLOP/s
};

// With `whole`, times are extrapolated to a model of so many layers too: they are fields of the report that
// are otherwise missing.
Report diffusion_report(Report machine, const DiffusionSpeeds& speeds, const Ceilings& ceilings,
                        const std::optional<LayerCounts>& whole);
std::string diffusion_text(const Report& report);
std::vector<ChartPanel> diffusion_charts(const Report& report);

}  // namespace weir::cli
