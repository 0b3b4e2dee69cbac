#include <fmt/format.h>

#include <utility>

#include "cli/bench_qwen.h"
#include "cli/markdown_table.h"
#include "cli/quantity.h"

namespace weir::cli {
namespace {

std::vector<std::string> joined(std::vector<std::string> cells, const std::vector<std::string>& more) {
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

Report decode_json(const DecodeSpeed& decode, int64_t generate, double bandwidth) {
  const double gigabytes = decode.speed.median() * static_cast<double>(decode.bytes) * 1e-9;
  return {{"depth", decode.depth},
          {"computed", decode.computed},
          {"tokens", generate},
          {"tokens_per_second", decode.speed.speeds_json()},
          {"bytes_per_token", decode.bytes},
          {"gigabytes_per_second", gigabytes},
          {"share_of_measured_bandwidth", gigabytes / bandwidth},
          {"steps", steps_json(decode.steps, generate, bandwidth)}};
}

std::string decode_text(const Report& r) {
  MarkdownTable table({"decode, depth", "tokens/s", "slowest", "fastest", "bytes/token", "GB/s", "share"});
  for (const Report& d : r["decode"]) {
    table.add(joined(joined({d["depth"].dump()}, spread_cells(d["tokens_per_second"])),
                     {size_text(d["bytes_per_token"].get<uint64_t>()),
                      fmt::format("{:.1f}", d["gigabytes_per_second"].get<double>()),
                      percent_text(d["share_of_measured_bandwidth"])}));
  }
  const Report& deepest = r["decode"].back();
  if (deepest["computed"] == deepest["depth"]) return table.text();
  return table.text() + fmt::format(
                            "\nOf deeper sequences the first {} tokens are computed; the keys and values of "
                            "the others are copies of theirs.\n",
                            deepest["computed"].get<int64_t>());
}

std::string answers_text(const Report& r) {
  MarkdownTable table({"end to end, prompt", "generated", "seconds", "slowest", "fastest"});
  for (const Report& e : r["end_to_end"]) {
    table.add(joined({e["prompt"].dump(), e["generated"].dump()}, spread_cells(e["seconds"])));
  }
  return table.text();
}

std::string all_steps_text(const Report& r) {
  std::string out = prefill_steps_text(r["prefill"]);
  for (const Report& d : r["decode"]) {
    out += fmt::format("\ndecode at depth {}\n\n{}", d["depth"].dump(), steps_text(d["steps"]));
  }
  return out;
}

// Beside the speed, that at which tokens would come if their bytes were read at the measured bandwidth.
ChartPanel decode_chart(const Report& r) {
  const double bandwidth = r["read_gigabytes_per_second"].get<double>() * 1e9;
  ChartPanel panel{"Decode, tokens/s", "depth, tokens", {}, false, {{"weir", {}, false}}};
  panel.lines.push_back({"bound by memory", {}, true});
  for (const Report& d : r["decode"]) {
    panel.ticks.push_back(d["depth"].get<double>());
    panel.lines[0].points.push_back(chart_point(panel.ticks.back(), d["tokens_per_second"]));
    const double bound = bandwidth / d["bytes_per_token"].get<double>();
    panel.lines[1].points.push_back({panel.ticks.back(), bound, bound, bound});
  }
  return panel;
}

}  // namespace

Report qwen_report(Report machine, const BenchOptions& options, const QwenSpeeds& speeds) {
  const double bandwidth = machine["read_gigabytes_per_second"].get<double>();
  Report out = std::move(machine);
  out["peak_memory_bytes"] = peak_memory_bytes();
  out["prefill"] = prefill_json(speeds.prefill, bandwidth);
  out["decode"] = out["end_to_end"] = Report::array();
  for (const DecodeSpeed& d : speeds.decode) {
    out["decode"].push_back(decode_json(d, options.generate, bandwidth));
  }
  for (const AnswerTime& a : speeds.answers) {
    out["end_to_end"].push_back(
        {{"prompt", a.prompt}, {"generated", options.generate}, {"seconds", a.seconds.times_json()}});
  }
  return out;
}

std::string qwen_text(const Report& r) {
  return fmt::format("{}\n{}\n{}\n{}{}", model_text(r), prefill_text(r["prefill"]), decode_text(r),
                     answers_text(r), all_steps_text(r));
}

std::vector<ChartPanel> qwen_charts(const Report& r) {
  return {prefill_chart(r["prefill"]), decode_chart(r)};
}

}  // namespace weir::cli
