// The CPU's steps of block diffusion, other than attention and head, against the reference steps, and against
// themselves in other cuts, thread counts and instruction sets.
#include <optional>
#include <set>

#include "kernels/cpu_matrix_support.h"
#include "kernels/diffusion_steps.h"
#include "kernels/observe/timed_steps.h"
#include "kernels/reference/reference_steps.h"

namespace weir::test {
namespace {

constexpr int64_t kHidden = 128, kMixed = 192, kDense = 80, kWidth = 96, kExperts = 20, kTopK = 3;
constexpr int64_t kRows = 37, kVocabulary = 300;
constexpr Limits kLimits{kRows, kHidden, 2 * kMixed, kVocabulary, kTopK, kExperts, kWidth};
constexpr float kEpsilon = 1e-6f;

// What a checkpoint would hold of one layer.
struct Source {
  Source(uint64_t seed, const Encoding& encoding) : random(seed) {
    owned.reserve(5 + 3 * kExperts);
    gate = add(kDense, kHidden, encoding);
    up = add(kDense, kHidden, encoding);
    out = add(kHidden, kMixed, encoding);
    router = add(kExperts, kHidden, {Dtype::kBf16, 8, 64});
    vocabulary = add(kVocabulary, kHidden, encoding);
    const Encoding narrow{encoding.dtype, encoding.bits, encoding.bits == 0 ? 0 : 32};
    for (int64_t e = 0; e < kExperts; ++e) {
      experts.push_back(
          {add(kWidth, kHidden, narrow), add(kWidth, kHidden, narrow), add(kHidden, kWidth, narrow)});
    }
  }

  Matrix add(int64_t rows, int64_t cols, const Encoding& encoding) {
    owned.push_back(random_matrix(random, rows, cols, encoding));
    return owned.back().view();
  }

  Random random;
  std::vector<OwnedMatrix> owned;
  Matrix gate, up, out, router, vocabulary;
  std::vector<ExpertSource> experts;
};

struct Layer {
  Layer(Steps& steps, const Source& source) {
    const Matrix both[] = {source.gate, source.up};
    gate_up = *steps.pack(both, Use::kProjection);
    out = *steps.pack({&source.out, 1}, Use::kProjection);
    moe.experts = kExperts;
    moe.top_k = kTopK;
    moe.shared = false;
    moe.activation = Activation::kGeluTanh;
    moe.router = *steps.pack({&source.router, 1}, Use::kRouter);
    moe.expert = *steps.pack_experts(source.experts);
    vocabulary = *steps.diffusion()->pack_vocabulary(source.vocabulary, 11.3f);
    Random random(99);
    gain = random.vector(kHidden, 0.5, 1.5);
    expert_scale = random.vector(kExperts, 0.5, 1.5);
    norms = {random.vector(kHidden, 0.5, 1.5), random.vector(kHidden, 0.5, 1.5),
             random.vector(kHidden, 0.5, 1.5)};
  }

  std::unique_ptr<Linear> gate_up, out;
  MoeWeights moe;
  std::unique_ptr<Vocabulary> vocabulary;
  Vector gain, expert_scale;
  FeedForwardNorms norms;
};

// Results of every step for rows of x, each of which enters the next ones.
struct Results {
  explicit Results(int64_t rows)
      : embedded(poisoned(rows * kHidden)),
        normed(embedded),
        gated(poisoned(rows * kDense)),
        projected(embedded),
        residual(embedded),
        weights(poisoned(rows * kTopK)),
        experts(static_cast<size_t>(rows * kTopK), -1),
        activated(poisoned(rows * kTopK * kWidth)),
        routed(embedded),
        output(embedded) {}

  std::vector<float> embedded, normed, gated, projected, residual, weights;
  std::vector<int32_t> experts;
  std::vector<float> activated, routed, output;

  void expect_same_bits_as(const Results& other, const std::string& what) const {
    expect_same_bits(embedded, other.embedded, "embed, " + what);
    expect_same_bits(normed, other.normed, "norm, " + what);
    expect_same_bits(gated, other.gated, "norm_gated, " + what);
    expect_same_bits(projected, other.projected, "project, " + what);
    expect_same_bits(residual, other.residual, "project_norm_add, " + what);
    expect_same_bits(weights, other.weights, "route, " + what);
    EXPECT_EQ(experts, other.experts) << "route, " << what;
    expect_same_bits(activated, other.activated, "experts_up, " + what);
    expect_same_bits(routed, other.routed, "experts_down, " + what);
    expect_same_bits(output, other.output, "feed_forward_add, " + what);
  }
};

struct Input {
  explicit Input(uint64_t seed) {
    Random random(seed);
    for (int64_t t = 0; t < kRows; ++t) tokens.push_back(static_cast<int32_t>(random.below(kVocabulary)));
    x = random.floats(kRows * kHidden, -2, 2);
    mixed = random.floats(kRows * kMixed, -2, 2);
  }
  std::vector<int32_t> tokens;
  std::vector<float> x, mixed;
};

Rows part(std::vector<float>& values, int64_t first, int64_t rows, int64_t cols) {
  return {values.data() + first * cols, rows, cols};
}

constexpr LayerScalars kScalars{0.75f, 0.5f};
constexpr int64_t kCausal = 20;

// Rows [first, first + rows) through all steps, into their place of `r`.
void run_rows(Steps& steps, const Layer& layer, Input input, Results& r, int64_t first, int64_t rows) {
  DiffusionSteps& d = *steps.diffusion();
  CanvasBatch batch;
  batch.tokens = std::span(input.tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
  const auto hidden = [&](std::vector<float>& values) { return part(values, first, rows, kHidden); };
  const Rows x = hidden(r.residual);
  std::copy_n(hidden(input.x).floats(), rows * kHidden, x.floats());
  const Routing routing{r.experts.data() + first * kTopK, r.weights.data() + first * kTopK, rows, kTopK};
  const Rows activated{r.activated.data() + first * kTopK * kWidth, rows * kTopK, kWidth};

  d.embed(hidden(r.embedded), batch, *layer.vocabulary);
  d.norm(hidden(r.normed), x, layer.gain, kEpsilon);
  d.norm_gated(part(r.gated, first, rows, kDense), x, layer.gain, kEpsilon, *layer.gate_up);
  d.project(hidden(r.projected), part(input.mixed, first, rows, kMixed), *layer.out);
  d.project_norm_add(x, part(input.mixed, first, rows, kMixed), *layer.out, layer.gain, kEpsilon);
  d.route(routing, x, layer.gain, kEpsilon, layer.moe, layer.expert_scale);
  steps.experts_up(activated, hidden(r.normed), routing, layer.moe);
  d.experts_down(hidden(r.routed), activated, routing, layer.moe);
  std::copy_n(x.floats(), rows * kHidden, hidden(r.output).floats());
  d.feed_forward_add(hidden(r.output), hidden(r.projected), hidden(r.routed), layer.norms, kEpsilon, kScalars,
                     kCausal - first);
}

Results run(Steps& steps, const Layer& layer, const Input& input, int64_t cut = kRows) {
  Results r(kRows);
  for (int64_t t = 0; t < kRows; t += cut) run_rows(steps, layer, input, r, t, std::min(cut, kRows - t));
  return r;
}

struct Cpu {
  Cpu(Isa isa, int threads) : backend(isa, threads, kLimits) {
    EXPECT_TRUE(backend->diffusion()->reserve(kLimits).ok());
  }
  Steps& operator*() const { return *backend.steps; }
  CpuBackend backend;
};

void expect_near(std::span<const float> got, std::span<const float> want, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 0;
  for (const float w : want) scale = std::max(scale, static_cast<double>(std::fabs(w)));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * scale) << what << ", element " << i;
  }
}

// Relative to the largest element. Plain weights have no rounding but that of float32; with affine ones the
// activations are off by up to 1 / 254 of their group's largest, and sums of 80 to 192 products by some
// 2 % of theirs.
TEST(CpuDiffusionSteps, EveryStepAgreesWithTheReference) {
  const std::pair<Encoding, double> cases[] = {{{Dtype::kBf16, 0, 0}, 2e-6},
                                               {{Dtype::kF32, 0, 0}, 2e-6},
                                               {{Dtype::kBf16, 4, 64}, 0.02},
                                               {{Dtype::kBf16, 8, 64}, 0.02}};
  for (const auto& [encoding, tolerance] : cases) {
    SCOPED_TRACE(encoding.text());
    // Columns of kMixed and kHidden are whole groups of 64.
    const Source source(1, encoding);
    const Input input(2);
    const auto reference = make_reference_steps();
    const Results want = run(*reference, Layer(*reference, source), input);
    const Cpu cpu(cpu_features().best_isa(), 2);
    const Results got = run(*cpu, Layer(*cpu, source), input);
    expect_near(got.embedded, want.embedded, 1e-7, "embed");
    expect_near(got.normed, want.normed, 1e-6, "norm");
    expect_near(got.gated, want.gated, tolerance, "norm_gated");
    expect_near(got.projected, want.projected, tolerance, "project");
    expect_near(got.residual, want.residual, tolerance, "project_norm_add");
    if (encoding.bits != 0) continue;  // a residual that far off may choose other experts
    EXPECT_EQ(got.experts, want.experts);
    expect_near(got.weights, want.weights, 2e-5, "route");
    expect_near(got.activated, want.activated, 2e-6, "experts_up");
    expect_near(got.routed, want.routed, 2e-5, "experts_down");
    expect_near(got.output, want.output, 2e-5, "feed_forward_add");
  }
}

TEST(CpuDiffusionSteps, BitsAreTheSameForEveryInstructionSetThreadCountAndCut) {
  const Source source(3, {Dtype::kBf16, 4, 64});
  const Input input(4);
  std::optional<Results> first;
  for (const Isa isa : supported_isas()) {
    for (const int threads : {1, 3}) {
      const Cpu cpu(isa, threads);
      const Layer layer(*cpu, source);
      for (const int64_t cut : {1, 2, 5, 13, 37}) {
        const Results got = run(*cpu, layer, input, cut);
        if (!first) first = got;
        got.expect_same_bits_as(*first, std::string(isa_name(isa)) + ", " + std::to_string(threads) +
                                            " threads, rows by " + std::to_string(cut));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuDiffusionSteps, NormMayWriteOverItsInput) {
  const Source source(5, {Dtype::kBf16, 4, 64});
  const Cpu cpu(cpu_features().best_isa(), 2);
  const Layer layer(*cpu, source);
  Input input(6);
  std::vector<float> apart = poisoned(kRows * kHidden);
  DiffusionSteps& d = *(*cpu).diffusion();
  d.norm(rows_of(apart, kHidden), rows_of(input.x, kHidden), layer.gain, kEpsilon);
  d.norm(rows_of(input.x, kHidden), rows_of(input.x, kHidden), layer.gain, kEpsilon);
  expect_same_bits(input.x, apart, "in place");
}

TEST(CpuDiffusionSteps, RecallReadsTheSlotsOfEachCanvas) {
  const Cpu cpu(cpu_features().best_isa(), 1);
  Random random(7);
  CanvasState canvases[2];
  for (CanvasState& c : canvases) c.soft = random.vector(8 * kHidden, -1, 1).values;
  const std::vector<int32_t> first{0, 3, 7}, second{2};
  const CanvasSegment segments[] = {{nullptr, &canvases[0], 0, 8, 5, first},
                                    {nullptr, &canvases[1], 0, 8, 8, second}};
  CanvasBatch batch;
  batch.canvases = segments;
  std::vector<float> soft = poisoned(4 * kHidden), want;
  (*cpu).diffusion()->recall(rows_of(soft, kHidden), batch);
  const auto add = [&](const CanvasState& c, int32_t slot) {
    const float* from = c.soft.floats() + slot * kHidden;
    want.insert(want.end(), from, from + kHidden);
  };
  for (const int32_t slot : first) add(canvases[0], slot);
  for (const int32_t slot : second) add(canvases[1], slot);
  expect_same_bits(soft, want, "recalled");
}

TEST(TimedSteps, MeasureEveryStepOfDiffusionAndChangeNoBit) {
  const Source source(8, {Dtype::kBf16, 4, 64});
  const Input input(9);
  const Cpu plain(cpu_features().best_isa(), 1);
  Cpu watched(cpu_features().best_isa(), 1);
  TimedSteps timed(std::move(watched.backend.steps));
  const Results want = run(*plain, Layer(*plain, source), input);
  run(timed, Layer(timed, source), input).expect_same_bits_as(want, "timed");
  std::set<std::string> names;
  for (const StepCost& cost : timed.costs()) {
    names.insert(cost.name);
    EXPECT_EQ(cost.calls, 1) << cost.name;
    EXPECT_GT(cost.bytes, 0u) << cost.name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"embed", "norm", "norm_gated", "project", "project_norm_add",
                                          "route", "experts_up", "experts_down", "feed_forward_add"}));
}

TEST(TimedSteps, HaveNoDiffusionWhereTheirInnerStepsHaveNone) {
  struct Causal final : ForwardingSteps {
    Causal() : ForwardingSteps(make_reference_steps()) {}
    DiffusionSteps* diffusion() override { return nullptr; }
  };
  EXPECT_EQ(TimedSteps(std::make_unique<Causal>()).diffusion(), nullptr);
}

}  // namespace
}  // namespace weir::test
