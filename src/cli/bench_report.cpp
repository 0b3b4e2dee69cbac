// What the reports of both benches have in common.
#include <fmt/format.h>

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
                    double load_seconds, double bandwidth) {
  return {{"version", WEIR_VERSION},      {"cpu", cpu_features().model},
          {"threads", pool.threads()},    {"model", options.model.model},
          {"kernels", kernels},           {"repeats", options.repeats},
          {"load_seconds", load_seconds}, {"read_gigabytes_per_second", bandwidth}};
}

std::string machine_text(const Report& r) {
  return fmt::format(
      "{}, {} threads, {}, {}\n"
      "loaded in {:.1f} s; memory reads {:.1f} GB/s; medians of {} (slowest to fastest)\n",
      r["cpu"].get<std::string>(), r["threads"].get<int>(), r["kernels"].get<std::string>(),
      r["model"].get<std::string>(), r["load_seconds"].get<double>(),
      r["read_gigabytes_per_second"].get<double>(), r["repeats"].get<int>());
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
               fmt::format("{:.0f} %", 100 * s["share_of_measured_bandwidth"].get<double>())});
  }
  return table.text();
}

std::string speed_text(const char* what, const Report& part) {
  const Report& speed = part["tokens_per_second"];
  return fmt::format("{} {:.2f} tokens/s ({:.2f} to {:.2f})", what, speed["median"].get<double>(),
                     speed["slowest"].get<double>(), speed["fastest"].get<double>());
}

}  // namespace weir::cli
