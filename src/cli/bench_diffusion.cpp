// The bench of a diffusion model: a prompt, then passes over a canvas behind it.
#include "cli/bench_diffusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "checkpoint/synthetic.h"
#include "cli/bandwidth.h"
#include "cli/engine.h"
#include "cli/int8_peak.h"
#include "generate/canvas.h"
#include "generate/pass_rows.h"

namespace weir::cli {
namespace {

constexpr int32_t kSoftTokens[] = {kAllTokens, 64};

// Layers of DiffusionGemma-26B-A4B, which a synthetic model may have fewer of.
constexpr LayerCounts kWholeModel{25, 5};

// `steps` belong to the model.
struct LayeredModel {
  std::unique_ptr<diffusion_gemma::Model> model;
  LayerSteps* steps = nullptr;
};

Result<LayeredModel> load(const BenchOptions& options, Checkpoint checkpoint, ThreadPool& pool) {
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(options.backend, pool));
  auto layered = std::make_unique<LayerSteps>(std::make_unique<TimedSteps>(std::move(steps)));
  LayeredModel out;
  out.steps = layered.get();
  WEIR_TRY(out.model, load_diffusion_gemma(std::move(checkpoint), std::move(layered), options.backend));
  return out;
}

void add_costs(std::vector<StepCost>& sum, const std::vector<std::vector<StepCost>>& parts) {
  for (const auto& part : parts) {
    for (const StepCost& cost : part) {
      auto same =
          std::find_if(sum.begin(), sum.end(), [&](const StepCost& c) { return c.name == cost.name; });
      if (same == sum.end()) same = sum.insert(sum.end(), StepCost{cost.name});
      same->calls += cost.calls;
      same->seconds += cost.seconds;
      same->bytes += cost.bytes;
    }
  }
}

// Everything that is measured happens to one sequence and one canvas behind it.
class DiffusionBench {
 public:
  DiffusionBench(LayeredModel& layered, const BenchOptions& options)
      : model_(*layered.model), steps_(*layered.steps), options_(options) {
    const diffusion_gemma::Config& c = model_.config();
    speeds_.prefix = options.prompts.back();
    tokens_ = token_ids(speeds_.prefix + c.canvas, c.vocabulary);
    speeds_.canvas = c.canvas;
  }

  Result<DiffusionSpeeds> measure() {
    for (const int64_t tokens : options_.prompts) WEIR_RETURN_IF_ERROR(measure_prefill(tokens));
    WEIR_TRY(canvas_, model_.new_canvas());
    WEIR_TRY(PassCost first, run_pass({speeds_.canvas, speeds_.prefix}));
    static_cast<void>(first);  // gives every slot its keys and values
    for (const int32_t soft_tokens : kSoftTokens) {
      for (const int64_t rows : options_.rows) {
        if (rows > speeds_.canvas) continue;
        WEIR_RETURN_IF_ERROR(measure_passes({rows, speeds_.prefix, soft_tokens}));
      }
    }
    WEIR_RETURN_IF_ERROR(measure_steps());
    return std::move(speeds_);
  }

 private:
  // Each repeat feeds the prompt to a new sequence, in chunks. One more to warm up.
  Status measure_prefill(int64_t tokens) {
    PrefillSpeed prefill{tokens, {}, {}};
    for (int64_t repeat = 0; repeat <= options_.repeats; ++repeat) {
      WEIR_TRY(state_, model_.new_sequence());
      prefill.steps.clear();
      const Stopwatch watch;
      std::span<const int32_t> prompt = std::span(tokens_).first(static_cast<size_t>(tokens));
      while (!prompt.empty()) {
        const auto rows = std::min(static_cast<size_t>(options_.backend.chunk), prompt.size());
        const Segment segment{&state_, 0, static_cast<int64_t>(rows)};
        CanvasBatch batch;
        batch.tokens = prompt.first(rows);
        batch.segments = {&segment, 1};
        WEIR_TRY(const auto beliefs, model_.run(batch));
        static_cast<void>(beliefs);
        add_costs(prefill.steps, steps_.parts());
        prompt = prompt.subspan(rows);
      }
      if (repeat > 0) {
        prefill.speed.values.push_back(static_cast<double>(tokens) / watch.seconds());
      }
    }
    speeds_.prefill.push_back(std::move(prefill));
    return {};
  }

  // Forwards slots spread evenly over the canvas, as a compacted pass does, and asks about all of them.
  Result<PassCost> run_pass(const PassShape& shape) {
    std::vector<int32_t> slots, rows;
    std::vector<Inquiry> inquiries;
    for (int64_t r = 0; r < shape.rows; ++r) {
      slots.push_back(static_cast<int32_t>(r * speeds_.canvas / shape.rows));
      rows.push_back(tokens_[static_cast<size_t>(speeds_.prefix + slots.back())]);
      inquiries.push_back({.row = static_cast<int32_t>(r),
                           .draw = {.position = static_cast<uint32_t>(slots.back())},
                           .soft_tokens = shape.soft_tokens});
    }
    const CanvasSegment segment{&state_, &canvas_, shape.committed, speeds_.canvas, 0, slots};
    CanvasBatch batch;
    batch.tokens = rows;
    batch.canvases = {&segment, 1};
    batch.inquiries = inquiries;
    WEIR_TRY(const auto beliefs, model_.run(batch));
    static_cast<void>(beliefs);
    return pass_cost(steps_.parts(), model_.config(), shape);
  }

  Status measure_passes(const PassShape& shape) {
    PassSamples samples{shape, {}};
    for (int64_t repeat = 0; repeat <= options_.repeats; ++repeat) {
      WEIR_TRY(PassCost cost, run_pass(shape));
      if (repeat > 0) samples.costs.push_back(std::move(cost));
    }
    speeds_.passes.push_back(std::move(samples));
    return {};
  }

  // Steps of the reference sampler, whole: from the canvas's rows to what their beliefs change in it. The
  // first one, without self-conditioning, warms up.
  Status measure_steps() {
    Denoising denoising;
    denoising.steps = std::max(denoising.steps, options_.repeats + 2);
    denoising.confidence = 0;  // never sure, so that the canvas lasts for all repeats
    const int64_t vocabulary = model_.config().vocabulary;
    Canvas canvas(denoising, speeds_.canvas, {}, std::make_unique<CanvasDraws>(0, 0, vocabulary));
    speeds_.step.shape = {speeds_.canvas, speeds_.prefix};
    for (int64_t repeat = 0; repeat <= options_.repeats; ++repeat) {
      WEIR_CHECK(!canvas.done());
      const Stopwatch putting_together;
      PassRows pass;
      pass.add_canvas(state_, canvas_, canvas, speeds_.prefix);
      const CanvasBatch batch = pass.batch();
      const double before = putting_together.seconds();
      WEIR_TRY(const auto beliefs, model_.run(batch));
      const Stopwatch absorbing;
      canvas.absorb(beliefs);
      if (repeat == 0) continue;
      speeds_.sampler.values.push_back(before + absorbing.seconds());
      speeds_.step.costs.push_back(pass_cost(steps_.parts(), model_.config(), speeds_.step.shape));
    }
    return {};
  }

  diffusion_gemma::Model& model_;
  LayerSteps& steps_;
  const BenchOptions& options_;
  std::vector<int32_t> tokens_;  // of the prompt, then of the canvas
  SequenceState state_;
  CanvasState canvas_;
  DiffusionSpeeds speeds_;
};

Status check_options(const BenchOptions& options, const diffusion_gemma::Config& config) {
  if (options.generate_given || options.depths_given) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is for models that generate token by token",
                             options.generate_given ? "--generate" : "--depth"),
                 "leave it out: a diffusion model's passes over a canvas are measured"};
  }
  if (options.prompts.back() <= config.context - config.canvas) return Ok{};
  return Error{Code::kInvalidArgument,
               fmt::format("--prompt {} and a canvas of {} do not fit the model's context of {} tokens",
                           options.prompts.back(), config.canvas, config.context),
               "ask for fewer"};
}

// The layers to extrapolate to: those of the whole model, if the synthetic one has some of each kind but not
// all.
std::optional<LayerCounts> missing_layers(const BenchOptions& options,
                                          const diffusion_gemma::Config& config) {
  const auto full = std::count(config.is_full.begin(), config.is_full.end(), true);
  const bool synthetic = options.model.model.starts_with(kSyntheticPrefix);
  if (!synthetic || full == 0 || config.layers == kWholeModel.sliding + kWholeModel.full) return std::nullopt;
  return kWholeModel;
}

}  // namespace

Result<BenchResult> bench_diffusion(const BenchOptions& options, BenchModel bench) {
  WEIR_TRY(const diffusion_gemma::Config config, diffusion_gemma::read_config(bench.checkpoint));
  WEIR_RETURN_IF_ERROR(check_options(options, config));
  WEIR_TRY(const Isa isa, options.backend.chosen_isa());
  WEIR_TRY(LayeredModel layered, load(options, std::move(bench.checkpoint), bench.pool));
  const double load_seconds = bench.opening.seconds();
  WEIR_TRY(const Bandwidth bandwidth, measure_bandwidth(bench.pool, kBenchPasses));
  const Ceilings ceilings{bandwidth.gigabytes_per_second, measure_int8_peak(bench.pool, isa)};
  WEIR_TRY(const DiffusionSpeeds speeds, DiffusionBench(layered, options).measure());
  Report machine = model_json(options, bench.pool, layered.steps->name(), load_seconds, ceilings.bandwidth);
  machine["layers"] = config.layers;
  Report out = diffusion_report(std::move(machine), speeds, ceilings, missing_layers(options, config));
  return BenchResult{out, diffusion_text(out), diffusion_charts(out)};
}

}  // namespace weir::cli
