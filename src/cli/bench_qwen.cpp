// The bench of an autoregressive model: prompts, and one token after the other behind them.
#include "cli/bench_qwen.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "cli/bandwidth.h"
#include "cli/engine.h"
#include "kernels/cuda/gpu_report.h"
#include "kernels/observe/timed_steps.h"
#include "models/kv_pages.h"

namespace weir::cli {
namespace {

// Tokens of a depth that go through the model; a prompt of 32,768 would take minutes.
constexpr int64_t kComputedDepth = 2 * kKvPage;

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

class QwenBench {
 public:
  QwenBench(TimedModel& timed, const BenchOptions& options)
      : model_(*timed.model), timed_(*timed.timed), options_(options) {
    const int64_t longest = std::max(options.prompts.back(), kComputedDepth);
    ids_ = token_ids(longest + options.generate, model_.config().vocabulary);
  }

  Result<QwenSpeeds> measure() {
    for (const int64_t tokens : options_.prompts) WEIR_RETURN_IF_ERROR(measure_answer(tokens));
    for (const int64_t depth : options_.depths) WEIR_RETURN_IF_ERROR(measure_depth(depth));
    return std::move(speeds_);
  }

 private:
  std::span<const int32_t> prompt(int64_t tokens) const {
    return std::span(ids_).first(static_cast<size_t>(tokens));
  }
  std::span<const int32_t> answer() const {
    return std::span(ids_).last(static_cast<size_t>(options_.generate));
  }

  // Seconds of feeding these tokens, whose steps are then in timed_.
  Result<double> timed_feed(SequenceState& state, std::span<const int32_t> tokens, int64_t chunk) {
    timed_.reset();
    const Stopwatch watch;
    WEIR_RETURN_IF_ERROR(feed(model_, state, tokens, chunk));
    return watch.seconds();
  }

  // Seconds of decoding behind what the sequence holds, one token after the other as answers do it. Where the
  // device chooses, it takes its own choices, the most likely tokens, and the host reads them one step
  // behind; elsewhere the tokens are given.
  Result<double> timed_decode(SequenceState& state) {
    ChoiceRules rules;
    rules.vocabulary = model_.config().vocabulary;
    rules.temperature = 0;
    WEIR_TRY(const std::unique_ptr<TokenChooser> chooser, model_.steps().make_chooser(rules, {}));
    if (chooser == nullptr) return timed_feed(state, answer(), 1);
    timed_.reset();
    const Stopwatch watch;
    const Segment segment{&state, 0, 1};
    const int32_t row = 0;
    Batch batch{answer().first(1), {&segment, 1}, {&row, 1}};
    for (int64_t token = 0; token < options_.generate; ++token) {
      WEIR_RETURN_IF_ERROR(model_.queue(batch, *chooser));
      batch.chosen = chooser.get();
      if (token > 0) WEIR_RETURN_IF_ERROR(chooser->take());
    }
    WEIR_RETURN_IF_ERROR(chooser->take());
    return watch.seconds();
  }

  // Runs number 0, which warms up, to `repeats` measure speeds; one more measures steps, each waited for.
  int64_t runs() const { return options_.repeats + 2; }
  void begin_run(int64_t run) { timed_.pause(run + 1 < runs()); }
  bool counts(int64_t run) const { return run > 0 && run + 1 < runs(); }

  // Each run is a new sequence: a prompt, and tokens behind it.
  Status measure_answer(int64_t tokens) {
    PrefillSpeed prefill{tokens, {}, {}};
    DecodeSpeed decode{tokens, tokens, {}, {}, model_.bytes_per_token(tokens + options_.generate / 2)};
    AnswerTime total{tokens, {}};
    for (int64_t run = 0; run < runs(); ++run) {
      begin_run(run);
      WEIR_TRY(SequenceState state, model_.new_sequence());
      WEIR_TRY(const double prefilling, timed_feed(state, prompt(tokens), model_.max_rows()));
      prefill.steps = timed_.costs();
      WEIR_TRY(const double decoding, timed_decode(state));
      decode.steps = timed_.costs();
      if (!counts(run)) continue;
      prefill.speed.values.push_back(static_cast<double>(tokens) / prefilling);
      decode.speed.values.push_back(static_cast<double>(options_.generate) / decoding);
      total.seconds.values.push_back(prefilling + decoding);
    }
    speeds_.prefill.push_back(std::move(prefill));
    speeds_.answers.push_back(std::move(total));
    if (!options_.depths_given) speeds_.decode.push_back(std::move(decode));
    return {};
  }

  // A sequence of `depth` positions, the first of which are computed. What decoding costs depends on how many
  // keys and values there are, not on what they are.
  Result<SequenceState> sequence_of(int64_t depth) {
    WEIR_TRY(SequenceState state, model_.new_sequence());
    WEIR_RETURN_IF_ERROR(feed(model_, state, prompt(std::min(depth, kComputedDepth)), model_.max_rows()));
    if (depth <= kComputedDepth) return state;
    for (KvCache& cache : state.kv) {
      WEIR_RETURN_IF_ERROR(repeat_pages(model_.steps(), cache, depth));
    }
    state.position = depth;
    return state;
  }

  Status measure_depth(int64_t depth) {
    WEIR_TRY(const SequenceState beginning, sequence_of(depth));
    DecodeSpeed decode{depth,
                       std::min(depth, kComputedDepth),
                       {},
                       {},
                       model_.bytes_per_token(depth + options_.generate / 2)};
    for (int64_t run = 0; run < runs(); ++run) {
      begin_run(run);
      WEIR_TRY(SequenceState state, model_.copy(beginning));
      WEIR_TRY(const double seconds, timed_decode(state));
      decode.steps = timed_.costs();
      if (counts(run)) decode.speed.values.push_back(static_cast<double>(options_.generate) / seconds);
    }
    speeds_.decode.push_back(std::move(decode));
    return {};
  }

  qwen::Model& model_;
  TimedSteps& timed_;
  const BenchOptions& options_;
  std::vector<int32_t> ids_;
  QwenSpeeds speeds_;
};

// What steps' bytes are compared with, in GB/s: what the CPU reads, or what the GPU copies, read and written.
Result<double> memory_rate(const BenchOptions& options, ThreadPool& pool) {
  if (options.backend.device == "cuda") {
    WEIR_TRY(const GpuReport gpu, report_gpu(0));
    return gpu.copied_bytes_per_second * 1e-9;
  }
  WEIR_TRY(const Bandwidth bandwidth, measure_bandwidth(pool, kBenchPasses));
  return bandwidth.gigabytes_per_second;
}

Status check_options(const BenchOptions& options, int64_t context) {
  if (options.rows_given) {
    return Error{Code::kInvalidArgument, "--rows is for diffusion models and for weir bench roofline",
                 "leave it out"};
  }
  const int64_t deepest = options.depths.empty() ? 0 : options.depths.back();
  const int64_t most = std::max(options.prompts.back(), deepest);
  if (most < context && options.generate <= context - most) return Ok{};
  return Error{Code::kInvalidArgument,
               fmt::format("{} tokens and --generate {} do not fit the model's context of {} tokens", most,
                           options.generate, context),
               "ask for fewer"};
}

}  // namespace

Result<BenchResult> bench_qwen(const BenchOptions& options, BenchModel bench) {
  ThreadPool& pool = bench.pool;
  WEIR_TRY(const qwen::Config config, qwen::read_config(bench.checkpoint));
  WEIR_RETURN_IF_ERROR(check_options(options, config.context));
  WEIR_TRY(TimedModel timed, load(options, std::move(bench)));
  WEIR_TRY(const double bandwidth, memory_rate(options, pool));
  WEIR_TRY(const QwenSpeeds speeds, QwenBench(timed, options).measure());
  Report machine = model_json(options, pool, timed.timed->name(), timed.load_seconds, bandwidth);
  Report out = qwen_report(std::move(machine), options, speeds);
  return BenchResult{out, qwen_text(out), qwen_charts(out)};
}

}  // namespace weir::cli
