// weir bench: tokens per second, and bytes per second beside what the memory can deliver.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cli/bandwidth.h"
#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/json_report.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/quantity.h"
#include "cli/verbs.h"
#include "kernels/observe/timed_steps.h"

namespace weir::cli {
namespace {

constexpr int kBandwidthPasses = 7;

struct Options {
  ModelOptions model;
  BackendOptions backend;
  int64_t prompt = 512;
  int64_t generate = 32;
  int64_t repeats = 5;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Several measurements of one quantity.
struct Sample {
  std::vector<double> values;

  double median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
  Report json() const {
    return {{"median", median()},
            {"slowest", *std::min_element(values.begin(), values.end())},
            {"fastest", *std::max_element(values.begin(), values.end())}};
  }
};

// A model whose steps are timed; `timed` belongs to the model.
struct Bench {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<qwen::Model> model;
  TimedSteps* timed = nullptr;
  double load_seconds = 0;
};

Result<Bench> load(const Options& options) {
  Bench bench;
  const auto start = Clock::now();
  bench.pool = std::make_unique<ThreadPool>(options.backend.chosen_threads());
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(options.backend, *bench.pool));
  auto timed = std::make_unique<TimedSteps>(std::move(steps));
  bench.timed = timed.get();
  WEIR_TRY(Checkpoint checkpoint, open_checkpoint(options.model.model));
  WEIR_TRY(bench.model, load_qwen(std::move(checkpoint), std::move(timed), options.backend));
  bench.load_seconds = seconds_since(start);
  return bench;
}

// Token ids spread over the vocabulary: what is measured does not depend on their meaning, but on which
// experts they reach.
std::vector<int32_t> token_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint32_t word = random_words({.step = static_cast<uint32_t>(i), .purpose = Purpose::kSynthetic})[0];
    ids[i] = static_cast<int32_t>(word % static_cast<uint64_t>(vocabulary));
  }
  return ids;
}

// Feeds the tokens in passes of at most `chunk` rows; logits of the last one only.
Status feed(qwen::Model& model, SequenceState& state, std::span<const int32_t> tokens, int64_t chunk) {
  while (!tokens.empty()) {
    const auto rows = std::min(static_cast<size_t>(chunk), tokens.size());
    const auto last = static_cast<int32_t>(rows - 1);
    const Segment segment{&state, 0, static_cast<int64_t>(rows)};
    WEIR_RETURN_IF_ERROR(model.run({tokens.first(rows), {&segment, 1}, {&last, 1}}));
    tokens = tokens.subspan(rows);
  }
  return {};
}

struct Speeds {
  Sample prefill;  // tokens per second
  Sample decode;
  std::vector<StepCost> prefill_steps, decode_steps;  // of the last repeat
};

// One round warms up with the same shapes; then each repeat is a new sequence: a prompt, and tokens after it.
Result<Speeds> measure(Bench& bench, const Options& options) {
  qwen::Model& model = *bench.model;
  const auto ids = token_ids(options.prompt + options.generate, model.config().vocabulary);
  const std::span<const int32_t> prompt = std::span(ids).first(static_cast<size_t>(options.prompt));
  const std::span<const int32_t> answer = std::span(ids).subspan(prompt.size());
  Speeds speeds;
  for (int64_t repeat = 0; repeat <= options.repeats; ++repeat) {
    WEIR_TRY(SequenceState state, model.new_sequence());
    bench.timed->reset();
    auto start = Clock::now();
    WEIR_RETURN_IF_ERROR(feed(model, state, prompt, model.max_rows()));
    const double prefill = seconds_since(start);
    speeds.prefill_steps = bench.timed->costs();

    bench.timed->reset();
    start = Clock::now();
    WEIR_RETURN_IF_ERROR(feed(model, state, answer, 1));
    const double decode = seconds_since(start);
    speeds.decode_steps = bench.timed->costs();
    if (repeat == 0) continue;
    speeds.prefill.values.push_back(static_cast<double>(options.prompt) / prefill);
    speeds.decode.values.push_back(static_cast<double>(options.generate) / decode);
  }
  return speeds;
}

// Time and bytes a token of each kind of step.
Report steps_json(const std::vector<StepCost>& costs, int64_t tokens, double peak) {
  Report out = Report::array();
  for (const StepCost& cost : costs) {
    const double gigabytes = static_cast<double>(cost.bytes) / cost.seconds * 1e-9;
    out.push_back({{"step", cost.name},
                   {"microseconds_per_token", cost.seconds * 1e6 / static_cast<double>(tokens)},
                   {"bytes_per_token", cost.bytes / static_cast<uint64_t>(tokens)},
                   {"gigabytes_per_second", gigabytes},
                   {"share_of_measured_bandwidth", gigabytes / peak}});
  }
  return out;
}

Report report_of(const Bench& bench, const Options& options, const Speeds& speeds, const Bandwidth& machine) {
  const double peak = machine.gigabytes_per_second;
  const uint64_t bytes = bench.model->bytes_per_token(options.prompt + options.generate / 2);
  const double gigabytes = speeds.decode.median() * static_cast<double>(bytes) * 1e-9;
  return {{"version", WEIR_VERSION},
          {"cpu", cpu_features().model},
          {"threads", bench.pool->threads()},
          {"model", options.model.model},
          {"kernels", bench.timed->name()},
          {"repeats", options.repeats},
          {"load_seconds", bench.load_seconds},
          {"read_gigabytes_per_second", peak},
          {"prefill",
           {{"tokens", options.prompt},
            {"tokens_per_second", speeds.prefill.json()},
            {"steps", steps_json(speeds.prefill_steps, options.prompt, peak)}}},
          {"decode",
           {{"depth", options.prompt},
            {"tokens", options.generate},
            {"tokens_per_second", speeds.decode.json()},
            {"bytes_per_token", bytes},
            {"gigabytes_per_second", gigabytes},
            {"share_of_measured_bandwidth", gigabytes / peak},
            {"steps", steps_json(speeds.decode_steps, options.generate, peak)}}}};
}

std::string speed_line(const char* what, const Report& part) {
  const Report& speed = part["tokens_per_second"];
  return fmt::format("{:<9} {:.2f} tokens/s ({:.2f} to {:.2f})", what, speed["median"].get<double>(),
                     speed["slowest"].get<double>(), speed["fastest"].get<double>());
}

std::string steps_table(const Report& steps) {
  std::string out =
      fmt::format("  {:<18} {:>12} {:>12} {:>8} {:>7}\n", "step", "us/token", "bytes/token", "GB/s", "share");
  for (const Report& s : steps) {
    fmt::format_to(std::back_inserter(out), "  {:<18} {:>12.1f} {:>12} {:>8.2f} {:>6.0f}%\n",
                   s["step"].get<std::string>(), s["microseconds_per_token"].get<double>(),
                   size_text(s["bytes_per_token"].get<uint64_t>()), s["gigabytes_per_second"].get<double>(),
                   100 * s["share_of_measured_bandwidth"].get<double>());
  }
  return out;
}

std::string text_of(const Report& r) {
  const Report& decode = r["decode"];
  return fmt::format(
      "{}, {} threads, {}, {}\n"
      "loaded in {:.1f} s; memory reads {:.1f} GB/s; medians of {} (slowest to fastest)\n\n"
      "{}, {} tokens in chunks\n{}\n"
      "{}, at depth {}: {} a token, {:.1f} GB/s, {:.0f} % of the measured bandwidth\n{}",
      r["cpu"].get<std::string>(), r["threads"].get<int>(), r["kernels"].get<std::string>(),
      r["model"].get<std::string>(), r["load_seconds"].get<double>(),
      r["read_gigabytes_per_second"].get<double>(), r["repeats"].get<int>(),
      speed_line("prefill", r["prefill"]), r["prefill"]["tokens"].get<int64_t>(),
      steps_table(r["prefill"]["steps"]), speed_line("decode", decode), decode["depth"].get<int64_t>(),
      size_text(decode["bytes_per_token"].get<uint64_t>()), decode["gigabytes_per_second"].get<double>(),
      100 * decode["share_of_measured_bandwidth"].get<double>(), steps_table(decode["steps"]));
}

Status check_context(const Options& options, int64_t context) {
  if (options.prompt < context && options.generate <= context - options.prompt) return Ok{};
  return Error{Code::kInvalidArgument,
               fmt::format("--prompt {} and --generate {} do not fit the model's context of {} tokens",
                           options.prompt, options.generate, context),
               "ask for fewer"};
}

Result<int> bench_model(const Options& options) {
  WEIR_TRY(Bench bench, load(options));
  WEIR_RETURN_IF_ERROR(check_context(options, bench.model->config().context));
  WEIR_TRY(const Bandwidth machine, measure_bandwidth(*bench.pool, kBandwidthPasses));
  WEIR_TRY(const Speeds speeds, measure(bench, options));
  const Report out = report_of(bench, options, speeds, machine);
  return options.json ? print_json(out) : print_answer(text_of(out));
}

}  // namespace

Verb add_bench(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode, step by step");
  command->add_flag("--json", options->json, "Report as JSON");
  add_count(*command, "--prompt", options->prompt, 1, "Tokens of the prompt, and so the depth of decoding");
  add_count(*command, "--generate", options->generate, 1, "Tokens to decode");
  add_count(*command, "--repeats", options->repeats, 1, "Timed repeats, after one to warm up");
  options->model.add(*command);
  options->backend.add(*command);
  return {command, [options] {
            const auto code = bench_model(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
