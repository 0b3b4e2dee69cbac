#include <fmt/format.h>

#include <utility>

#include "cli/bench_diffusion.h"
#include "cli/markdown_table.h"
#include "cli/quantity.h"

namespace weir::cli {
namespace {

// value(cost) of each repeat.
template <class Value>
Sample sample_of(const std::vector<PassCost>& costs, const Value& value) {
  Sample sample;
  for (const PassCost& cost : costs) sample.values.push_back(value(cost));
  return sample;
}

// Adds bytes, flops, their rates and the rates' shares of the ceilings.
void add_rates(Report& out, const Cost& cost, double seconds, const Ceilings& ceilings) {
  const double gigabytes = cost.bytes / seconds * 1e-9, gigaflops = cost.flops / seconds * 1e-9;
  out["bytes"] = static_cast<uint64_t>(cost.bytes);
  out["gigabytes_per_second"] = gigabytes;
  out["share_of_measured_bandwidth"] = gigabytes / ceilings.bandwidth;
  out["gigaflops"] = cost.flops * 1e-9;
  out["gigaflops_per_second"] = gigaflops;
  out["share_of_int8_peak"] = gigaflops / ceilings.int8_peak;
}

double milliseconds(const Cost& cost) {
  return cost.seconds * 1e3;
}

Report pass_json(const PassSamples& pass, const Ceilings& ceilings, const std::optional<LayerCounts>& whole) {
  const Sample times =
      sample_of(pass.costs, [](const PassCost& c) { return milliseconds(sum_of(c.total())); });
  Report out{{"rows", pass.shape.rows}};
  out["soft_tokens"] = pass.shape.soft_tokens == kAllTokens ? Report("all") : Report(pass.shape.soft_tokens);
  out["milliseconds"] = times.times_json();
  add_rates(out, sum_of(pass.costs.front().total()), times.median() * 1e-3, ceilings);
  if (!whole) return out;
  out["extrapolated_milliseconds"] =
      sample_of(pass.costs, [&](const PassCost& c) {
        return milliseconds(sum_of(c.with_layers(whole->sliding, whole->full)));
      }).median();
  return out;
}

Report part_json(const PassSamples& step, size_t part, const Ceilings& ceilings,
                 const std::optional<LayerCounts>& whole) {
  const Sample times =
      sample_of(step.costs, [&](const PassCost& c) { return milliseconds(c.total()[part]); });
  Report out{{"kind", pass_part_name(static_cast<PassPart>(part))}, {"milliseconds", times.median()}};
  add_rates(out, step.costs.front().total()[part], times.median() * 1e-3, ceilings);
  if (!whole) return out;
  out["extrapolated_milliseconds"] = sample_of(step.costs, [&](const PassCost& c) {
                                       return milliseconds(c.with_layers(whole->sliding, whole->full)[part]);
                                     }).median();
  return out;
}

Report step_json(const DiffusionSpeeds& speeds, const Ceilings& ceilings,
                 const std::optional<LayerCounts>& whole) {
  Report out = pass_json(speeds.step, ceilings, whole);
  const double sampler = speeds.sampler.median() * 1e3;
  out["kinds"] = Report::array();
  for (size_t part = 0; part < kPassParts; ++part) {
    out["kinds"].push_back(part_json(speeds.step, part, ceilings, whole));
  }
  out["kinds"].push_back({{"kind", "sampler"}, {"milliseconds", sampler}});
  if (whole) out["kinds"].back()["extrapolated_milliseconds"] = sampler;
  return out;
}

std::string number(const Report& value, const char* format) {
  return fmt::format(fmt::runtime(format), value.get<double>());
}

// Bytes, rates and shares, and what was extrapolated; empty for the sampler, which moves next to nothing.
void add_rate_cells(std::vector<std::string>& cells, const Report& r, bool extrapolated) {
  const bool counted = r.contains("bytes");
  cells.push_back(counted ? size_text(r["bytes"].get<uint64_t>()) : "");
  cells.push_back(counted ? number(r["gigabytes_per_second"], "{:.1f}") : "");
  cells.push_back(counted ? percent_text(r["share_of_measured_bandwidth"]) : "");
  cells.push_back(counted ? number(r["gigaflops_per_second"], "{:.0f}") : "");
  cells.push_back(counted ? percent_text(r["share_of_int8_peak"]) : "");
  if (extrapolated) cells.push_back(number(r["extrapolated_milliseconds"], "{:.1f}"));
}

std::vector<std::string> with_rate_titles(std::vector<std::string> titles, const Report& report) {
  for (const char* title : {"bytes", "GB/s", "of memory", "GFLOP/s", "of int8"}) titles.emplace_back(title);
  if (report.contains("extrapolated_layers")) {
    titles.push_back(fmt::format("ms, {} layers", report["extrapolated_layers"].get<int64_t>()));
  }
  return titles;
}

std::string passes_text(const Report& r) {
  MarkdownTable table(with_rate_titles({"rows", "soft tokens", "ms", "slowest", "fastest"}, r));
  for (const Report& pass : r["denoising"]["passes"]) {
    const Report& ms = pass["milliseconds"];
    const Report& soft = pass["soft_tokens"];
    std::vector<std::string> cells{
        std::to_string(pass["rows"].get<int64_t>()), soft.is_string() ? soft.get<std::string>() : soft.dump(),
        number(ms["median"], "{:.1f}"), number(ms["slowest"], "{:.1f}"), number(ms["fastest"], "{:.1f}")};
    add_rate_cells(cells, pass, r.contains("extrapolated_layers"));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string step_text(const Report& r) {
  const Report& step = r["denoising"]["step"];
  MarkdownTable table(with_rate_titles({"kind", "ms"}, r));
  for (const Report& kind : step["kinds"]) {
    std::vector<std::string> cells{kind["kind"].get<std::string>(), number(kind["milliseconds"], "{:.2f}")};
    add_rate_cells(cells, kind, r.contains("extrapolated_layers"));
    table.add(std::move(cells));
  }
  std::vector<std::string> all{"the model's pass", number(step["milliseconds"]["median"], "{:.2f}")};
  add_rate_cells(all, step, r.contains("extrapolated_layers"));
  table.add(std::move(all));
  return table.text();
}

}  // namespace

Report diffusion_report(Report machine, const DiffusionSpeeds& speeds, const Ceilings& ceilings,
                        const std::optional<LayerCounts>& whole) {
  Report out = std::move(machine);
  out["int8_peak_gigaflops_per_second"] = ceilings.int8_peak;
  if (whole) out["extrapolated_layers"] = whole->sliding + whole->full;
  out["peak_memory_bytes"] = peak_memory_bytes();
  out["prefill"] = prefill_json(speeds.prefill, ceilings.bandwidth);
  Report passes = Report::array();
  for (const PassSamples& pass : speeds.passes) passes.push_back(pass_json(pass, ceilings, whole));
  out["denoising"] = {{"prefix", speeds.prefix},
                      {"canvas", speeds.canvas},
                      {"passes", std::move(passes)},
                      {"step", step_json(speeds, ceilings, whole)}};
  return out;
}

std::string diffusion_text(const Report& r) {
  const Report& denoising = r["denoising"];
  std::string out = fmt::format(
      "{}int8 products reach {:.0f} GFLOP/s in the first-level cache; the model has {} layers\n\n"
      "{}{}\n"
      "denoising passes over slots of a canvas of {}, behind {} tokens\n\n{}\n"
      "one denoising step over the whole canvas, all soft tokens\n\n{}",
      model_text(r), r["int8_peak_gigaflops_per_second"].get<double>(), r["layers"].get<int64_t>(),
      prefill_text(r["prefill"]), prefill_steps_text(r["prefill"]), denoising["canvas"].get<int64_t>(),
      denoising["prefix"].get<int64_t>(), passes_text(r), step_text(r));
  if (!r.contains("extrapolated_layers")) return out;
  return out +
         fmt::format(
             "\nTimes for {} layers are extrapolated: a sliding layer's and a full layer's time as often as "
             "the whole model has them, and the rest once.\n",
             r["extrapolated_layers"].get<int64_t>());
}

// Milliseconds of a pass by its rows, a line for each number of soft tokens.
std::vector<ChartPanel> diffusion_charts(const Report& r) {
  ChartPanel panel{"One denoising pass, ms", "rows", {}, false, {}};
  for (const Report& pass : r["denoising"]["passes"]) {
    const Report& soft = pass["soft_tokens"];
    const std::string label = (soft.is_string() ? soft.get<std::string>() : soft.dump()) + " soft tokens";
    if (panel.lines.empty() || panel.lines.back().label != label) panel.lines.push_back({label, {}, false});
    const auto rows = pass["rows"].get<double>();
    if (panel.lines.size() == 1) panel.ticks.push_back(rows);
    panel.lines.back().points.push_back(chart_point(rows, pass["milliseconds"]));
  }
  return {prefill_chart(r["prefill"]), panel};
}

}  // namespace weir::cli
