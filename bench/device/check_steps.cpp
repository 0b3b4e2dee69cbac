#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "device/check.h"
#include "device/guarded.h"
#include "device/random_weights.h"
#include "kernels/reference/reference_steps.h"

namespace weir::bench {
namespace {

// Relative error of a row. One bf16 rounding has 1.7e-3 at worst and 1.1e-3 in the mean; a product of many
// rows has three (x, W, result), others chain a few more.
constexpr double kLinearBound = 6e-3;
constexpr double kChainBound = 1.2e-2;
// The recurrence feeds rounded keys back into its state, and its norm magnifies what is left of heads that
// cancel.
constexpr double kRecurrenceBound = 3e-2;

std::mutex gpu;  // the reference runs on many threads, the GPU's steps one at a time

struct Case {
  std::string name;
  std::function<void()> run;
};

// One backend's copy of what a case needs.
struct Side {
  Steps& steps;

  Vector vector(std::span<const float> values) const {
    Vector v;
    v.count = static_cast<int64_t>(values.size());
    v.values = std::move(*steps.allocate(values.size() * 4));
    steps.copy_in(v.values.data(), values.data(), values.size() * 4);
    return v;
  }
  Guarded activations(int64_t rows, int64_t cols, std::span<const float> values = {}) const {
    Guarded g(steps, rows, cols, steps.activation_dtype());
    if (!values.empty()) g.set(values);
    return g;
  }
  Guarded floats(int64_t rows, int64_t cols, std::span<const float> values = {}) const {
    Guarded g(steps, rows, cols, Dtype::kF32);
    if (!values.empty()) g.set(values);
    return g;
  }
};

std::vector<Matrix> views(const std::vector<OwnedMatrix>& owned) {
  std::vector<Matrix> out;
  for (const OwnedMatrix& m : owned) out.push_back(m.view());
  return out;
}

// Runs `step` on the reference and on the GPU; both return what they computed.
using Outcome = std::vector<std::vector<float>>;
void compare(Report& report, const std::string& name, Steps& cuda,
             const std::function<Outcome(const Side&)>& step, std::span<const int64_t> cols,
             std::span<const double> bounds) {
  const auto reference = make_reference_steps();
  const Outcome expected = step({*reference});
  Outcome found;
  {
    const std::lock_guard lock(gpu);
    found = step({cuda});
    if (const Status status = cuda.finish(); !status.ok()) return report.fail(name, status.error().message);
  }
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, worst_row_error(found[i], expected[i], cols[i]) / bounds[i]);
  }
  report.add(name, worst * bounds[0], bounds[0]);
}

std::vector<OwnedMatrix> in_projection(Random& random, const ModelShape& s) {
  if (s.mixed) {
    std::vector<OwnedMatrix> parts;
    const Encoding encodings[] = {
        {Dtype::kBf16, 8, 64}, {Dtype::kBf16, 2, 64}, {Dtype::kBf16, 3, 32}, {Dtype::kBf16, 6, 32}};
    for (const Encoding& e : encodings) parts.push_back(random.matrix(37, s.hidden, e));
    return parts;
  }
  std::vector<OwnedMatrix> parts;
  for (const int64_t rows :
       {2 * s.key_heads * 128 + s.value_heads * 128, s.value_heads * 128, s.value_heads, s.value_heads}) {
    parts.push_back(random.matrix(rows, s.hidden, kFourBit));
  }
  return parts;
}

void norm_project(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
                  const std::string& name) {
  Random random(seed);
  const auto parts = in_projection(random, s);
  const auto x = random.values(rows * s.hidden, 3.0f), gain = random.values(s.hidden, 0.1f, 1.0f);
  int64_t width = 0;
  for (const OwnedMatrix& p : parts) width += p.rows;
  compare(
      report, name, cuda,
      [&](const Side& side) -> Outcome {
        const auto w = std::move(*side.steps.pack(views(parts), Use::kProjection));
        const Guarded in = side.floats(rows, s.hidden, x), out = side.activations(rows, width);
        side.steps.norm_project(out.rows(), in.rows(), side.vector(gain), 1e-6f, *w);
        return {out.get()};
      },
      std::array{width}, std::array{kLinearBound});
}

void project_add(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
                 const std::string& name) {
  Random random(seed);
  const int64_t cols = s.heads * 256;
  const std::vector<OwnedMatrix> parts{
      random.matrix(s.hidden, cols, s.mixed ? Encoding{Dtype::kBf16, 5, 128} : kFourBit)};
  const auto mixed = random.values(rows * cols);
  const std::vector<float> x(static_cast<size_t>(rows * s.hidden), 0.25f);
  compare(
      report, name, cuda,
      [&](const Side& side) -> Outcome {
        const auto w = std::move(*side.steps.pack(views(parts), Use::kProjection));
        const Guarded in = side.activations(rows, cols, mixed), out = side.floats(rows, s.hidden, x);
        side.steps.project_add(out.rows(), in.rows(), *w);
        return {out.get()};
      },
      std::array{s.hidden}, std::array{kLinearBound});
}

// The GPU may swap experts whose reference weights are nearly equal; so weights are compared in order, and
// each chosen expert's own reference probability with that of the reference's choice.
void norm_route(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
                const std::string& name) {
  Random random(seed);
  const Encoding encoding = s.mixed ? Encoding{Dtype::kBf16, 8, 32} : kEightBit;
  const std::vector<OwnedMatrix> parts{random.matrix(s.experts, s.hidden, encoding),
                                       random.matrix(1, s.hidden, encoding)};
  const auto x = random.values(rows * s.hidden, 2.0f), gain = random.values(s.hidden, 0.1f, 1.0f);
  constexpr int64_t kTopK = 8, kSlots = kTopK + 1;
  std::vector<std::vector<int32_t>> chosen;
  compare(
      report, name, cuda,
      [&](const Side& side) -> Outcome {
        MoeWeights w;
        w.experts = s.experts;
        w.top_k = kTopK;
        w.router = std::move(*side.steps.pack(views(parts), Use::kRouter));
        const Guarded in = side.floats(rows, s.hidden, x), normed = side.activations(rows, s.hidden);
        const Guarded experts(side.steps, rows, kSlots, Dtype::kI32), weights = side.floats(rows, kSlots);
        const Routing routing{static_cast<int32_t*>(experts.rows().data), weights.rows().floats(), rows,
                              kSlots};
        side.steps.norm_route(normed.rows(), routing, in.rows(), side.vector(gain), 1e-6f, w);
        chosen.push_back(experts.get_ints());
        return {normed.get(), weights.get()};
      },
      std::array{s.hidden, kSlots}, std::array{kLinearBound, 2e-2});
  if (chosen.size() < 2) return;
  int64_t differing = 0;
  for (int64_t t = 0; t < rows; ++t) {
    std::vector<int32_t> a(chosen[0].begin() + t * kSlots, chosen[0].begin() + (t + 1) * kSlots);
    std::vector<int32_t> b(chosen[1].begin() + t * kSlots, chosen[1].begin() + (t + 1) * kSlots);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    if (a != b) ++differing;
  }
  report.add(name + " rows with another expert", static_cast<double>(differing),
             2.0 + 0.05 * static_cast<double>(rows));
}

struct RandomExperts {
  std::vector<OwnedMatrix> owned;
  std::vector<ExpertSource> sources;
};

RandomExperts random_experts(Random& random, const ModelShape& s) {
  RandomExperts r;
  r.owned.reserve(static_cast<size_t>(3 * (s.experts + 1)));
  for (int64_t e = 0; e <= s.experts; ++e) {
    const bool shared = e == s.experts;
    const Encoding gate = s.mixed ? Encoding{Dtype::kBf16, shared ? 6 : 5, shared ? 32 : 64} : kFourBit;
    const Encoding up = s.mixed ? Encoding{Dtype::kBf16, shared ? 2 : 3, shared ? 32 : 64} : kFourBit;
    const Encoding down = s.mixed ? Encoding{Dtype::kBf16, 0, 0} : kFourBit;
    r.owned.push_back(random.matrix(s.intermediate, s.hidden, gate));
    r.owned.push_back(random.matrix(s.intermediate, s.hidden, up));
    r.owned.push_back(random.matrix(s.hidden, s.intermediate, down));
    const size_t last = r.owned.size();
    r.sources.push_back({r.owned[last - 3].view(), r.owned[last - 2].view(), r.owned[last - 1].view()});
  }
  return r;
}

void experts(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
             const std::string& name) {
  Random random(seed);
  const RandomExperts weights = random_experts(random, s);
  constexpr int64_t kSlots = 9;
  const auto normed = random.values(rows * s.hidden), down_in = random.values(rows * kSlots * s.intermediate);
  const std::vector<float> x(static_cast<size_t>(rows * s.hidden), 0.125f);
  std::vector<int32_t> chosen;
  std::vector<float> factors;
  std::vector<int32_t> order(static_cast<size_t>(s.experts));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t t = 0; t < rows; ++t) {
    for (size_t i = 0; i < 8; ++i) {
      std::swap(order[i], order[i + static_cast<size_t>(random.below(s.experts - static_cast<int64_t>(i)))]);
      chosen.push_back(order[i]);
      factors.push_back(random.uniform(0.05f, 0.3f));
    }
    chosen.push_back(static_cast<int32_t>(s.experts));
    factors.push_back(random.uniform(0.2f, 0.8f));
  }
  compare(
      report, name, cuda,
      [&](const Side& side) -> Outcome {
        MoeWeights w;
        w.experts = s.experts;
        w.top_k = 8;
        w.expert = std::move(*side.steps.pack_experts(weights.sources));
        Guarded ids(side.steps, rows, kSlots, Dtype::kI32);
        ids.set_ints(chosen);
        const Guarded factor = side.floats(rows, kSlots, factors);
        const Routing routing{static_cast<int32_t*>(ids.rows().data), factor.rows().floats(), rows, kSlots};
        const Guarded in = side.activations(rows, s.hidden, normed),
                      up = side.activations(rows * kSlots, s.intermediate);
        side.steps.experts_up(up.rows(), in.rows(), routing, w);
        const Guarded down = side.activations(rows * kSlots, s.intermediate, down_in),
                      out = side.floats(rows, s.hidden, x);
        side.steps.experts_down_add(out.rows(), down.rows(), routing, w);
        return {up.get(), out.get()};
      },
      std::array{s.intermediate, s.hidden}, std::array{kChainBound, kLinearBound});
}

// A sequence with one attention and one DeltaNet layer.
SequenceState new_state(Steps& steps, const AttentionWeights* attention, const DeltaWeights* delta,
                        int64_t positions) {
  SequenceState state;
  if (attention != nullptr) {
    state.kv.emplace_back();
    for (int64_t p = 0; p < positions; p += kKvPage) {
      state.kv[0].pages.push_back(std::move(*steps.allocate(steps.kv_page_bytes(*attention))));
    }
  }
  if (delta != nullptr) {
    DeltaState d;
    d.recurrent = std::move(*steps.allocate(static_cast<size_t>(delta->value_heads * 128 * 128) * 4));
    d.conv = std::move(*steps.allocate(static_cast<size_t>(3 * delta->channels()) * 4));
    state.delta.push_back(std::move(d));
  }
  return state;
}

// Two sequences side by side: the passes' rows go to the first one, but for the last third of each pass,
// which goes to the second.
template <class Run>
Outcome run_passes(const Side& side, std::span<const int64_t> passes, SequenceState first,
                   SequenceState second, int64_t width, const std::vector<float>& inputs, int64_t out_width,
                   const Run& run) {
  Outcome outcome;
  size_t at = 0;
  for (const int64_t rows : passes) {
    const std::span<const float> values(inputs.data() + at, static_cast<size_t>(rows * width));
    at += values.size();
    const Guarded in = side.activations(rows, width, values), out = side.activations(rows, out_width);
    const std::vector<int32_t> tokens(static_cast<size_t>(rows), 0);
    const int64_t mine = rows - rows / 3;
    std::vector<Segment> segments{{&first, 0, mine}};
    if (mine < rows) segments.push_back({&second, mine, rows - mine});
    const Batch batch{tokens, segments, {}};
    side.steps.begin(batch);
    run(out.rows(), in.rows(), batch);
    outcome.push_back(out.get());
    for (const Segment& segment : segments) segment.state->position += segment.rows;
  }
  return outcome;
}

void attend(Report& report, Steps& cuda, const ModelShape& s, std::span<const int64_t> passes, uint64_t seed,
            const std::string& name) {
  Random random(seed);
  const int64_t rows = std::accumulate(passes.begin(), passes.end(), int64_t{0});
  const int64_t width = 2 * (s.heads + s.kv_heads) * 256, out_width = s.heads * 256;
  const auto inputs = random.values(rows * width);
  const auto q_norm = random.values(256, 0.1f, 1.2f), k_norm = random.values(256, 0.1f, 1.2f);
  const std::vector<int64_t> cols(passes.size(), out_width);
  const std::vector<double> bounds(passes.size(), kChainBound);
  compare(
      report, name, cuda,
      [&](const Side& side) {
        AttentionWeights w;
        w.heads = s.heads;
        w.kv_heads = s.kv_heads;
        w.head_dim = 256;
        w.rotary_dim = 64;
        w.rope_theta = 1e7f;
        w.norm_epsilon = 1e-6f;
        w.q_norm = side.vector(q_norm);
        w.k_norm = side.vector(k_norm);
        return run_passes(
            side, passes, new_state(side.steps, &w, nullptr, rows), new_state(side.steps, &w, nullptr, rows),
            width, inputs, out_width,
            [&](Rows out, Rows in, const Batch& batch) { side.steps.attend(out, in, w, batch, 0); });
      },
      cols, bounds);
}

void delta_rule(Report& report, Steps& cuda, const ModelShape& s, std::span<const int64_t> passes,
                uint64_t seed, const std::string& name) {
  Random random(seed);
  const int64_t rows = std::accumulate(passes.begin(), passes.end(), int64_t{0});
  const int64_t channels = (2 * s.key_heads + s.value_heads) * 128;
  const int64_t width = channels + s.value_heads * 130, out_width = s.value_heads * 128;
  const auto inputs = random.values(rows * width);
  const auto conv = random.values(4 * channels, 0.5f), norm = random.values(128, 0.1f, 1.0f);
  const auto dt_bias = random.values(s.value_heads);
  std::vector<float> decay;
  for (int64_t h = 0; h < s.value_heads; ++h) decay.push_back(random.uniform(0.01f, 0.5f));
  const std::vector<int64_t> cols(passes.size(), out_width);
  const std::vector<double> bounds(passes.size(), kRecurrenceBound);
  compare(
      report, name, cuda,
      [&](const Side& side) {
        DeltaWeights w;
        w.key_heads = s.key_heads;
        w.value_heads = s.value_heads;
        w.key_dim = w.value_dim = 128;
        w.taps = 4;
        w.norm_epsilon = 1e-6f;
        w.conv = side.vector(conv);
        w.decay = side.vector(decay);
        w.dt_bias = side.vector(dt_bias);
        w.norm = side.vector(norm);
        return run_passes(
            side, passes, new_state(side.steps, nullptr, &w, 0), new_state(side.steps, nullptr, &w, 0), width,
            inputs, out_width,
            [&](Rows out, Rows in, const Batch& batch) { side.steps.delta_rule(out, in, w, batch, 0); });
      },
      cols, bounds);
}

void ends(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
          const std::string& name) {
  Random random(seed);
  const int64_t vocabulary = 3001;
  const std::vector<OwnedMatrix> table{
      random.matrix(vocabulary, s.hidden, s.mixed ? Encoding{Dtype::kBf16, 3, 64} : kFourBit)};
  const auto gain = random.values(s.hidden, 0.1f, 1.0f);
  std::vector<int32_t> tokens, wanted;
  for (int64_t t = 0; t < rows; ++t) {
    tokens.push_back(static_cast<int32_t>(random.below(vocabulary)));
    if (t % 2 == 0 || t == rows - 1) wanted.push_back(static_cast<int32_t>(t));
  }
  const auto count = static_cast<int64_t>(wanted.size());
  compare(
      report, name, cuda,
      [&](const Side& side) -> Outcome {
        const auto embedding = std::move(*side.steps.pack_embedding(table[0].view()));
        const auto head = std::move(*side.steps.pack(views(table), Use::kProjection));
        SequenceState state;
        const Segment segment{&state, 0, rows};
        const Batch batch{tokens, {&segment, 1}, wanted};
        const Guarded x = side.floats(rows, s.hidden), logits = side.floats(count, vocabulary);
        side.steps.begin(batch);
        side.steps.embed(x.rows(), batch, *embedding);
        side.steps.norm_head(logits.rows(), x.rows(), side.vector(gain), 1e-6f, *head, batch);
        return {logits.get(), x.get()};
      },
      std::array{vocabulary, s.hidden}, std::array{kLinearBound, 1e-6});
}

}  // namespace

void check_steps(Report& report, Steps& cuda, const CheckOptions& options) {
  const Limits limits{.rows = 600,
                      .hidden = 2048,
                      .widest = 12352,
                      .vocabulary = 3001,
                      .slots = 9,
                      .experts = 257,
                      .intermediate = 512};
  if (const Status status = cuda.reserve(limits); !status.ok())
    return report.fail("reserve", status.error().message);
  std::vector<Case> cases;
  const auto add = [&](const std::string& step, const ModelShape& s, const std::string& what, uint64_t seed,
                       auto check) {
    const std::string name = std::string(s.name) + " " + step + " " + what + " seed " + std::to_string(seed);
    cases.push_back({name, [=] { check(name); }});
  };
  std::vector<ModelShape> shapes{kMixedShape, kPocketShape};
  if (!options.small_only) shapes.insert(shapes.begin(), kTrueShape);
  static const std::vector<std::vector<int64_t>> kPasses{
      {1, 1, 1, 3, 8}, {2, 5, 1}, {9, 1, 3}, {64, 1, 7}, {65, 2}, {257, 1, 1, 8, 40, 3}, {330, 200, 1}};
  for (const ModelShape& s : shapes) {
    const bool small = s.hidden < 2048;
    for (int seed = 1; seed <= options.seeds; ++seed) {
      const auto number = static_cast<uint64_t>(seed);
      for (const int64_t rows : {257, 65, 64, 9, 8, 5, 2, 1}) {
        if (!small && rows == 257 && seed > 1) continue;
        const std::string what = "T=" + std::to_string(rows);
        add("norm_project", s, what, number,
            [&report, &cuda, s, rows, number](auto& n) { norm_project(report, cuda, s, rows, number, n); });
        add("project_add", s, what, number,
            [&report, &cuda, s, rows, number](auto& n) { project_add(report, cuda, s, rows, number, n); });
        add("norm_route", s, what, number,
            [&report, &cuda, s, rows, number](auto& n) { norm_route(report, cuda, s, rows, number, n); });
        add("experts", s, what, number,
            [&report, &cuda, s, rows, number](auto& n) { experts(report, cuda, s, rows, number, n); });
        add("embed norm_head", s, what, number,
            [&report, &cuda, s, rows, number](auto& n) { ends(report, cuda, s, rows, number, n); });
      }
      for (const auto& passes : kPasses) {
        std::string what = "T=";
        for (const int64_t p : passes) what += std::to_string(p) + (&p == &passes.back() ? "" : ",");
        const std::vector<int64_t>* list = &passes;
        add("attend", s, what, number,
            [&report, &cuda, s, list, number](auto& n) { attend(report, cuda, s, *list, number, n); });
        add("delta_rule", s, what, number,
            [&report, &cuda, s, list, number](auto& n) { delta_rule(report, cuda, s, *list, number, n); });
      }
    }
  }
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(2u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t k = next++; k < cases.size(); k = next++) cases[k].run();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weir::bench
