#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_roofline.h"
#include "cli/markdown_table.h"
#include "cli/quantity.h"

namespace weir::cli {
namespace {

Report point_json(const RooflineCurve& curve, const RooflinePoint& point, double bandwidth, double peak) {
  const auto experts = static_cast<double>(curve.experts);
  const double seconds = point.seconds.median();
  const double gigabytes = experts * static_cast<double>(curve.expert_bytes) / seconds * 1e-9;
  const double gigaflops = experts * static_cast<double>(point.rows) * curve.flops() / seconds * 1e-9;
  Sample microseconds;
  for (const double s : point.seconds.values) microseconds.values.push_back(s / experts * 1e6);
  return {{"rows", point.rows},
          {"microseconds_per_expert", microseconds.times_json()},
          {"gigabytes_per_second", gigabytes},
          {"share_of_measured_bandwidth", gigabytes / bandwidth},
          {"gigaflops_per_second", gigaflops},
          {"share_of_int8_peak", gigaflops / peak}};
}

// Rows at which the line of streaming, which grows with them, meets the highest throughput; rates in 1e9.
double knee(const RooflineCurve& curve, double bandwidth, const Report& points) {
  double highest = 0;
  for (const Report& p : points) highest = std::max(highest, p["gigaflops_per_second"].get<double>());
  return highest / (bandwidth / static_cast<double>(curve.expert_bytes) * curve.flops());
}

std::string curve_text(const Report& curve) {
  MarkdownTable table({"rows", "us/expert", "slowest", "fastest", "GB/s", "of memory", "GFLOP/s", "of int8"});
  for (const Report& p : curve["points"]) {
    std::vector<std::string> cells = spread_cells(p["microseconds_per_expert"]);
    cells.insert(cells.begin(), p["rows"].dump());
    cells.push_back(fmt::format("{:.1f}", p["gigabytes_per_second"].get<double>()));
    cells.push_back(percent_text(p["share_of_measured_bandwidth"]));
    cells.push_back(fmt::format("{:.0f}", p["gigaflops_per_second"].get<double>()));
    cells.push_back(percent_text(p["share_of_int8_peak"]));
    table.add(std::move(cells));
  }
  return fmt::format(
      "\n{}: {} experts of {} x {}, {} each\n\n{}\n"
      "Streaming stops being the bound at {:.0f} rows, where its line meets the highest throughput.\n",
      curve["shape"].get<std::string>(), curve["experts"].dump(), curve["hidden"].dump(),
      curve["intermediate"].dump(), size_text(curve["expert_bytes"].get<uint64_t>()), table.text(),
      curve["streaming_ends_at_rows"].get<double>());
}

ChartPanel panel_of(const Report& r, const char* title, const char* field) {
  ChartPanel panel{title, "rows of an expert", {}, true, {}};
  for (const Report& curve : r["curves"]) {
    ChartLine line{curve["shape"].get<std::string>(), {}, false};
    for (const Report& p : curve["points"]) {
      const auto y = p[field].get<double>();
      line.points.push_back({p["rows"].get<double>(), y, y, y});
    }
    panel.lines.push_back(std::move(line));
  }
  for (const Report& p : r["curves"][0]["points"]) panel.ticks.push_back(p["rows"].get<double>());
  return panel;
}

}  // namespace

Report roofline_report(Report machine, double int8_peak, const std::vector<RooflineCurve>& curves) {
  const double bandwidth = machine["read_gigabytes_per_second"].get<double>();
  Report out = std::move(machine);
  out["int8_peak_gigaflops_per_second"] = int8_peak;
  out["curves"] = Report::array();
  for (const RooflineCurve& curve : curves) {
    Report points = Report::array();
    for (const RooflinePoint& p : curve.points) points.push_back(point_json(curve, p, bandwidth, int8_peak));
    out["curves"].push_back({{"shape", curve.shape},
                             {"hidden", curve.hidden},
                             {"intermediate", curve.intermediate},
                             {"experts", curve.experts},
                             {"expert_bytes", curve.expert_bytes},
                             {"streaming_ends_at_rows", knee(curve, bandwidth, points)},
                             {"points", points}});
  }
  return out;
}

std::string roofline_text(const Report& r) {
  std::string out = fmt::format("{}int8 products reach {:.0f} GFLOP/s in the first-level cache\n",
                                machine_text(r), r["int8_peak_gigaflops_per_second"].get<double>());
  for (const Report& curve : r["curves"]) out += curve_text(curve);
  return out;
}

std::vector<ChartPanel> roofline_charts(const Report& r) {
  ChartPanel flops = panel_of(r, "4-bit experts, GFLOP/s", "gigaflops_per_second");
  const Report& curve = r["curves"][0];
  const double bytes_of_flop = curve["expert_bytes"].get<double>() /
                               (6 * curve["hidden"].get<double>() * curve["intermediate"].get<double>());
  ChartLine bound{"bound by memory and int8", {}, true};
  for (const double rows : flops.ticks) {
    const double streaming = r["read_gigabytes_per_second"].get<double>() / bytes_of_flop * rows;
    const double y = std::min(streaming, r["int8_peak_gigaflops_per_second"].get<double>());
    bound.points.push_back({rows, y, y, y});
  }
  flops.lines.push_back(std::move(bound));
  ChartPanel bytes = panel_of(r, "4-bit experts, GB/s of weights", "gigabytes_per_second");
  bytes.lines.push_back({"memory", {}, true});
  for (const double rows : bytes.ticks) {
    const auto y = r["read_gigabytes_per_second"].get<double>();
    bytes.lines.back().points.push_back({rows, y, y, y});
  }
  return {flops, bytes};
}

}  // namespace weir::cli
