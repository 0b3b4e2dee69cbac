// What weir bench roofline measures, and how it is reported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench.h"

namespace weir::cli {

struct RooflinePoint {
  int64_t rows = 0;  // of each expert
  Sample seconds;    // of all experts
};

struct RooflineCurve {
  std::string shape;
  int64_t hidden = 0, intermediate = 0;
  int64_t experts = 0;
  uint64_t expert_bytes = 0;
  std::vector<RooflinePoint> points;

  // Of one row with one expert: three matrices, two operations a weight.
  double flops() const { return 6 * static_cast<double>(hidden * intermediate); }
};

Report roofline_report(Report machine, double int8_peak, const std::vector<RooflineCurve>& curves);
std::string roofline_text(const Report& report);
std::vector<ChartPanel> roofline_charts(const Report& report);

}  // namespace weir::cli
