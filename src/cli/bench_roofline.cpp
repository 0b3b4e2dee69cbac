// weir bench roofline: experts in 4 bits times a number of rows each. With few rows the time is that of
// reading the experts, with many that of the arithmetic.
#include "cli/bench_roofline.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cli/bandwidth.h"
#include "cli/engine.h"
#include "cli/int8_peak.h"

namespace weir::cli {
namespace {

constexpr int64_t kGroup = 64;

// All experts together: more than a cache holds.
constexpr int64_t kExpertBytes = int64_t{1} << 30;

// Of one call of the steps; it goes to fewer experts when each gets many.
constexpr int64_t kRowsOfCall = 4096;

struct Shape {
  const char* name;
  int64_t hidden, intermediate;

  int64_t weights() const { return 3 * hidden * intermediate; }
};
constexpr Shape kShapes[] = {{"qwen3.6-35b-a3b", 2048, 512}, {"diffusiongemma-26b-a4b", 2816, 704}};

// Experts of one shape, in memory that lies apart, whose values are all the same random ones.
class ExpertSet {
 public:
  static Result<ExpertSet> make(const Shape& shape, Steps& steps) {
    ExpertSet set(shape, steps);
    const auto count = static_cast<size_t>(shape.weights());
    std::vector<uint8_t> values(count / 3 / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto step = static_cast<uint32_t>(i);
      values[i] = static_cast<uint8_t>(random_words({.step = step, .purpose = Purpose::kSynthetic})[0]);
    }
    const std::vector<uint16_t> scales(count / 3 / kGroup, 0x3c00);  // 2^-7 in bfloat16
    const auto matrix = [&](int64_t rows, int64_t cols) {
      const std::byte* scale_bytes = std::as_bytes(std::span(scales)).data();
      return Matrix{{Dtype::kBf16, 4, kGroup},
                    rows,
                    cols,
                    std::as_bytes(std::span(values)).data(),
                    scale_bytes,
                    scale_bytes};
    };
    const ExpertSource source{matrix(shape.intermediate, shape.hidden),
                              matrix(shape.intermediate, shape.hidden),
                              matrix(shape.hidden, shape.intermediate)};
    const auto bytes = static_cast<int64_t>(source.gate.bytes() + source.up.bytes() + source.down.bytes());
    set.moe_.experts = kExpertBytes / bytes;
    set.moe_.top_k = 1;
    set.moe_.shared = false;
    WEIR_TRY(set.moe_.expert,
             steps.pack_experts(std::vector<ExpertSource>(static_cast<size_t>(set.moe_.experts), source)));
    WEIR_RETURN_IF_ERROR(steps.reserve(
        {kRowsOfCall, shape.hidden, shape.hidden, 0, 1, set.moe_.experts + 1, shape.intermediate}));
    return set;
  }

  int64_t experts() const { return moe_.experts; }
  uint64_t bytes_of_one() const { return moe_.expert->up_bytes(0) + moe_.expert->down_bytes(0); }

  // Seconds in which every expert meets `rows` rows of its own.
  double run(int64_t rows) {
    const int64_t of_call = std::clamp<int64_t>(kRowsOfCall / rows, 1, experts());
    const Stopwatch watch;
    for (int64_t first = 0; first < experts(); first += of_call) {
      const int64_t count = std::min(of_call, experts() - first) * rows;
      for (int64_t t = 0; t < count; ++t) {
        chosen_[static_cast<size_t>(t)] = static_cast<int32_t>(first + t / rows);
      }
      const Routing routing{chosen_.data(), weights_.data(), count, 1};
      const Rows hidden{x_.data(), count, shape_.hidden};
      const Rows activated{activated_.data(), count, shape_.intermediate};
      steps_.experts_up(activated, hidden, routing, moe_);
      steps_.experts_down_add(hidden, activated, routing, moe_);
    }
    return watch.seconds();
  }

 private:
  ExpertSet(const Shape& shape, Steps& steps)
      : shape_(shape),
        steps_(steps),
        x_(static_cast<size_t>(kRowsOfCall * shape.hidden), 0.5f),
        activated_(static_cast<size_t>(kRowsOfCall * shape.intermediate)),
        weights_(kRowsOfCall),
        chosen_(kRowsOfCall) {}

  Shape shape_;
  Steps& steps_;
  MoeWeights moe_;
  std::vector<float> x_, activated_, weights_;  // weights of 0 keep x from growing
  std::vector<int32_t> chosen_;
};

Result<RooflineCurve> measure(const Shape& shape, const BenchOptions& options, ThreadPool& pool) {
  WEIR_TRY(const std::unique_ptr<Steps> steps, make_steps(options.backend, pool));
  WEIR_TRY(ExpertSet experts, ExpertSet::make(shape, *steps));
  RooflineCurve curve{shape.name,        shape.hidden,           shape.intermediate,
                      experts.experts(), experts.bytes_of_one(), {}};
  for (const int64_t rows : options.rows) {
    RooflinePoint point{rows, {}};
    for (int64_t repeat = 0; repeat <= options.repeats; ++repeat) {
      const double seconds = experts.run(rows);
      if (repeat > 0) point.seconds.values.push_back(seconds);
    }
    curve.points.push_back(std::move(point));
  }
  return curve;
}

Status check_options(const BenchOptions& options) {
  if (options.backend.device != "cpu") {
    return Error{Code::kUnsupported, "weir bench roofline measures the CPU only", "leave out --device"};
  }
  if (options.prompts_given || options.depths_given || options.generate_given) {
    return Error{Code::kInvalidArgument, "weir bench roofline runs no model",
                 "leave out --prompt, --depth and --generate"};
  }
  if (options.rows.back() <= kRowsOfCall) return {};
  return Error{Code::kInvalidArgument,
               "--rows " + std::to_string(options.rows.back()) + " is too large, at most " +
                   std::to_string(kRowsOfCall),
               ""};
}

}  // namespace

Result<BenchResult> bench_roofline(const BenchOptions& given) {
  WEIR_RETURN_IF_ERROR(check_options(given));
  BenchOptions options = given;
  if (!options.rows_given) options.rows = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  WEIR_TRY(const auto pool, make_pool(options.backend.chosen_threads()));
  WEIR_TRY(const Isa isa, options.backend.chosen_isa());
  WEIR_TRY(const Bandwidth bandwidth, measure_bandwidth(*pool, kBenchPasses));
  const double int8_peak = measure_int8_peak(*pool, isa);
  std::vector<RooflineCurve> curves;
  for (const Shape& shape : kShapes) {
    WEIR_TRY(RooflineCurve curve, measure(shape, options, *pool));
    curves.push_back(std::move(curve));
  }
  Report machine =
      machine_json(options, *pool, "cpu " + std::string(isa_name(isa)), bandwidth.gigabytes_per_second);
  const Report out = roofline_report(std::move(machine), int8_peak, curves);
  return BenchResult{out, roofline_text(out), roofline_charts(out)};
}

}  // namespace weir::cli
