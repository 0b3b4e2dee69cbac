#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "device/check.h"
#include "device/comparison.h"
#include "device/random_weights.h"

namespace weir::bench {
namespace {

struct Case {
  std::string name;
  std::function<void()> run;
};

std::vector<Matrix> views(const std::vector<OwnedMatrix>& owned) {
  std::vector<Matrix> out;
  for (const OwnedMatrix& m : owned) out.push_back(m.view());
  return out;
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

// Opens a pass of `rows` rows, as in use.
void begin(Steps& steps, int64_t rows) {
  SequenceState state;
  const std::vector<int32_t> tokens(static_cast<size_t>(rows));
  const Segment segment{&state, 0, rows};
  steps.begin({tokens, {&segment, 1}, {}});
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
        const Vector gains = side.vector(gain);
        begin(side.steps, rows);
        side.steps.norm_project(out.rows(), in.rows(), gains, 1e-6f, *w);
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
        begin(side.steps, rows);
        side.steps.project_add(out.rows(), in.rows(), *w);
        return {out.get()};
      },
      std::array{s.hidden}, std::array{kLinearBound});
}

// The GPU may exchange experts whose logits are nearly equal: the reference's logits of the s-th choices must
// then be.
void norm_route(Report& report, Steps& cuda, const ModelShape& s, int64_t rows, uint64_t seed,
                const std::string& name) {
  Random random(seed);
  const Encoding encoding = s.mixed ? Encoding{Dtype::kBf16, 8, 32} : kEightBit;
  const std::vector<OwnedMatrix> parts{random.matrix(s.experts, s.hidden, encoding),
                                       random.matrix(1, s.hidden, encoding)};
  const auto x = random.values(rows * s.hidden, 2.0f), gain = random.values(s.hidden, 0.1f, 1.0f);
  constexpr int64_t kTopK = 8, kSlots = kTopK + 1;
  std::vector<std::vector<int32_t>> chosen;  // by the reference, then by the GPU
  std::vector<float> logits;                 // of the reference
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
        const Vector gains = side.vector(gain);
        begin(side.steps, rows);
        side.steps.norm_route(normed.rows(), routing, in.rows(), gains, 1e-6f, w);
        if (chosen.empty()) {
          const Guarded all = side.floats(rows, s.experts + 1);
          side.steps.norm_project(all.rows(), in.rows(), gains, 1e-6f, *w.router);
          logits = all.get();
        }
        chosen.push_back(experts.get_ints());
        return {normed.get(), weights.get()};
      },
      std::array{s.hidden, kSlots}, std::array{kLinearBound, kLinearBound});
  if (chosen.size() < 2) return;
  double gap = 0;
  for (int64_t i = 0; i < rows * kSlots; ++i) {
    const float* row = logits.data() + i / kSlots * (s.experts + 1);
    const auto k = static_cast<size_t>(i);
    gap = std::max<double>(gap, std::fabs(row[chosen[0][k]] - row[chosen[1][k]]));
  }
  report.add(name + " logits of exchanged experts", gap, kLogitGap);
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
        begin(side.steps, rows);
        side.steps.experts_up(up.rows(), in.rows(), routing, w);
        const Guarded down = side.activations(rows * kSlots, s.intermediate, down_in),
                      out = side.floats(rows, s.hidden, x);
        begin(side.steps, rows);
        side.steps.experts_down_add(out.rows(), down.rows(), routing, w);
        return {up.get(), out.get()};
      },
      std::array{s.intermediate, s.hidden}, std::array{kChainBound, kLinearBound});
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
        const Vector gains = side.vector(gain);
        side.steps.begin(batch);
        side.steps.embed(x.rows(), batch, *embedding);
        side.steps.norm_head(logits.rows(), x.rows(), gains, 1e-6f, *head, batch);
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
        if (rows == 257 && (options.small_only || (!small && seed > 1))) continue;
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
        if (options.small_only && std::ranges::max(passes) > 65) continue;
        std::string what = "T=";
        for (const int64_t p : passes) what += std::to_string(p) + (&p == &passes.back() ? "" : ",");
        const std::vector<int64_t>* list = &passes;
        add("attend", s, what, number,
            [&report, &cuda, s, list, number](auto& n) { check_attend(report, cuda, s, *list, number, n); });
        add("delta_rule", s, what, number, [&report, &cuda, s, list, number](auto& n) {
          check_delta_rule(report, cuda, s, *list, number, n);
        });
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
