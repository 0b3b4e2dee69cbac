// The bench of an autoregressive model: a prompt, then one token after the other.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "cli/bandwidth.h"
#include "cli/bench.h"
#include "cli/engine.h"
#include "cli/quantity.h"
#include "kernels/observe/timed_steps.h"

namespace weir::cli {
namespace {

// A model whose steps are timed; `timed` belongs to the model.
struct TimedModel {
  std::unique_ptr<qwen::Model> model;
  TimedSteps* timed = nullptr;
  double load_seconds = 0;
};

Result<TimedModel> load(const BenchOptions& options, BenchModel bench) {
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(options.backend, bench.pool));
  auto timed = std::make_unique<TimedSteps>(std::move(steps));
  TimedModel out;
  out.timed = timed.get();
  WEIR_TRY(out.model, load_qwen(std::move(bench.checkpoint), std::move(timed), options.backend));
  out.load_seconds = bench.opening.seconds();
  return out;
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
Result<Speeds> measure(TimedModel& timed, const BenchOptions& options) {
  qwen::Model& model = *timed.model;
  const auto ids = token_ids(options.prompt + options.generate, model.config().vocabulary);
  const std::span<const int32_t> prompt = std::span(ids).first(static_cast<size_t>(options.prompt));
  const std::span<const int32_t> answer = std::span(ids).subspan(prompt.size());
  Speeds speeds;
  for (int64_t repeat = 0; repeat <= options.repeats; ++repeat) {
    WEIR_TRY(SequenceState state, model.new_sequence());
    timed.timed->reset();
    const Stopwatch prefilling;
    WEIR_RETURN_IF_ERROR(feed(model, state, prompt, model.max_rows()));
    const double prefill = prefilling.seconds();
    speeds.prefill_steps = timed.timed->costs();

    timed.timed->reset();
    const Stopwatch decoding;
    WEIR_RETURN_IF_ERROR(feed(model, state, answer, 1));
    const double decode = decoding.seconds();
    speeds.decode_steps = timed.timed->costs();
    if (repeat == 0) continue;
    speeds.prefill.values.push_back(static_cast<double>(options.prompt) / prefill);
    speeds.decode.values.push_back(static_cast<double>(options.generate) / decode);
  }
  return speeds;
}

Report report_of(const BenchOptions& options, Report machine, const Speeds& speeds, uint64_t bytes) {
  const double bandwidth = machine["read_gigabytes_per_second"].get<double>();
  const double gigabytes = speeds.decode.median() * static_cast<double>(bytes) * 1e-9;
  Report out = std::move(machine);
  out["prefill"] = {{"tokens", options.prompt},
                    {"tokens_per_second", speeds.prefill.speeds_json()},
                    {"steps", steps_json(speeds.prefill_steps, options.prompt, bandwidth)}};
  out["decode"] = {{"depth", options.prompt},
                   {"tokens", options.generate},
                   {"tokens_per_second", speeds.decode.speeds_json()},
                   {"bytes_per_token", bytes},
                   {"gigabytes_per_second", gigabytes},
                   {"share_of_measured_bandwidth", gigabytes / bandwidth},
                   {"steps", steps_json(speeds.decode_steps, options.generate, bandwidth)}};
  return out;
}

std::string text_of(const Report& r) {
  const Report& decode = r["decode"];
  return fmt::format(
      "{}\n{}, {} tokens in chunks\n\n{}\n"
      "{}, at depth {}: {} a token, {:.1f} GB/s, {:.0f} % of the measured bandwidth\n\n{}",
      machine_text(r), speed_text("prefill", r["prefill"]), r["prefill"]["tokens"].get<int64_t>(),
      steps_text(r["prefill"]["steps"]), speed_text("decode", decode), decode["depth"].get<int64_t>(),
      size_text(decode["bytes_per_token"].get<uint64_t>()), decode["gigabytes_per_second"].get<double>(),
      100 * decode["share_of_measured_bandwidth"].get<double>(), steps_text(decode["steps"]));
}

Status check_context(const BenchOptions& options, int64_t context) {
  if (options.prompt < context && options.generate <= context - options.prompt) return Ok{};
  return Error{Code::kInvalidArgument,
               fmt::format("--prompt {} and --generate {} do not fit the model's context of {} tokens",
                           options.prompt, options.generate, context),
               "ask for fewer"};
}

}  // namespace

Result<BenchResult> bench_qwen(const BenchOptions& options, BenchModel bench) {
  ThreadPool& pool = bench.pool;
  WEIR_TRY(TimedModel timed, load(options, std::move(bench)));
  WEIR_RETURN_IF_ERROR(check_context(options, timed.model->config().context));
  WEIR_TRY(const Bandwidth bandwidth, measure_bandwidth(pool, kBenchPasses));
  WEIR_TRY(const Speeds speeds, measure(timed, options));
  const uint64_t bytes = timed.model->bytes_per_token(options.prompt + options.generate / 2);
  Report machine =
      machine_json(options, pool, timed.timed->name(), timed.load_seconds, bandwidth.gigabytes_per_second);
  Report out = report_of(options, std::move(machine), speeds, bytes);
  std::string text = text_of(out);
  return BenchResult{std::move(out), std::move(text)};
}

}  // namespace weir::cli
