// What the reports of both benches have in common.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/cpu_features.h"
#include "base/random.h"
#include "cli/bench.h"
#include "cli/markdown_table.h"
#include "cli/quantity.h"

namespace weir::cli {

double Sample::median() const {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

Report Sample::speeds_json() const {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median()}, {"slowest", *least}, {"fastest", *most}};
}

Report Sample::times_json() const {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median()}, {"slowest", *most}, {"fastest", *least}};
}

std::vector<int32_t> token_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint32_t word = random_words({.step = static_cast<uint32_t>(i), .purpose = Purpose::kSynthetic})[0];
    ids[i] = static_cast<int32_t>(word % static_cast<uint64_t>(vocabulary));
  }
  return ids;
}

Report machine_json(const BenchOptions& options, const ThreadPool& pool, const std::string& kernels,
                    double bandwidth) {
  return {{"version", WEIR_VERSION}, {"cpu", cpu_features().model}, {"threads", pool.threads()},
          {"kernels", kernels},      {"repeats", options.repeats},  {"read_gigabytes_per_second", bandwidth}};
}

std::string machine_text(const Report& r) {
  return fmt::format("{}, {} threads, {}\nmemory gives {:.1f} GB/s; medians of {} repeats\n",
                     r["cpu"].get<std::string>(), r["threads"].get<int>(), r["kernels"].get<std::string>(),
                     r["read_gigabytes_per_second"].get<double>(), r["repeats"].get<int64_t>());
}

Report model_json(const BenchOptions& options, const ThreadPool& pool, const std::string& kernels,
                  double load_seconds, double bandwidth) {
  Report out = machine_json(options, pool, kernels, bandwidth);
  out["model"] = options.model.model;
  out["load_seconds"] = load_seconds;
  return out;
}

std::string model_text(const Report& r) {
  return fmt::format("{}{}, loaded in {:.1f} s; {} of memory at most\n", machine_text(r),
                     r["model"].get<std::string>(), r["load_seconds"].get<double>(),
                     size_text(r["peak_memory_bytes"].get<uint64_t>()));
}

uint64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Report steps_json(const std::vector<StepCost>& costs, int64_t tokens, double bandwidth) {
  Report out = Report::array();
  for (const StepCost& cost : costs) {
    const double gigabytes = static_cast<double>(cost.bytes) / cost.seconds * 1e-9;
    out.push_back({{"step", cost.name},
                   {"microseconds_per_token", cost.seconds * 1e6 / static_cast<double>(tokens)},
                   {"bytes_per_token", cost.bytes / static_cast<uint64_t>(tokens)},
                   {"gigabytes_per_second", gigabytes},
                   {"share_of_measured_bandwidth", gigabytes / bandwidth}});
  }
  return out;
}

std::string steps_text(const Report& steps) {
  MarkdownTable table({"step", "us/token", "bytes/token", "GB/s", "share"});
  for (const Report& s : steps) {
    table.add({s["step"].get<std::string>(), fmt::format("{:.1f}", s["microseconds_per_token"].get<double>()),
               size_text(s["bytes_per_token"].get<uint64_t>()),
               fmt::format("{:.2f}", s["gigabytes_per_second"].get<double>()),
               percent_text(s["share_of_measured_bandwidth"])});
  }
  return table.text();
}

Report prefill_json(const std::vector<PrefillSpeed>& prefill, double bandwidth) {
  Report out = Report::array();
  for (const PrefillSpeed& p : prefill) {
    out.push_back({{"tokens", p.tokens},
                   {"tokens_per_second", p.speed.speeds_json()},
                   {"steps", steps_json(p.steps, p.tokens, bandwidth)}});
  }
  return out;
}

std::string prefill_text(const Report& prefill) {
  MarkdownTable table({"prefill, tokens", "tokens/s", "slowest", "fastest"});
  for (const Report& p : prefill) {
    std::vector<std::string> cells = spread_cells(p["tokens_per_second"]);
    cells.insert(cells.begin(), p["tokens"].dump());
    table.add(std::move(cells));
  }
  return table.text();
}

std::string prefill_steps_text(const Report& prefill) {
  std::string out;
  for (const Report& p : prefill) {
    out += fmt::format("\nprefill of {} tokens\n\n{}", p["tokens"].dump(), steps_text(p["steps"]));
  }
  return out;
}

ChartPanel prefill_chart(const Report& prefill) {
  ChartPanel panel{"Prefill, tokens/s", "tokens of the prompt", {}, false, {{"weir", {}, false}}};
  for (const Report& p : prefill) {
    panel.ticks.push_back(p["tokens"].get<double>());
    panel.lines[0].points.push_back(chart_point(panel.ticks.back(), p["tokens_per_second"]));
  }
  return panel;
}

ChartPoint chart_point(double x, const Report& spread) {
  const double slowest = spread["slowest"].get<double>(), fastest = spread["fastest"].get<double>();
  return {x, spread["median"].get<double>(), std::min(slowest, fastest), std::max(slowest, fastest)};
}

std::vector<std::string> spread_cells(const Report& spread) {
  std::vector<std::string> cells;
  for (const char* which : {"median", "slowest", "fastest"}) {
    cells.push_back(fmt::format("{:.2f}", spread[which].get<double>()));
  }
  return cells;
}

std::string percent_text(const Report& share) {
  return fmt::format("{:.0f} %", 100 * share.get<double>());
}

}  // namespace weir::cli
