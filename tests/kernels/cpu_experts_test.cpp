// Routing and experts of the CPU backend against float64, and against themselves row by row.
#include "kernels/cpu_matrix_support.h"

namespace weir::test {
namespace {

constexpr int64_t kHidden = 128, kWidth = 96, kExperts = 20, kTopK = 3, kSlots = kTopK + 1, kRows = 64;
constexpr Limits kLimits{kRows, kHidden, kHidden, 0, kSlots, kExperts + 1, kWidth};

// Experts of several encodings, as a checkpoint of mixed bits has them, and the router.
struct Layer {
  explicit Layer(uint64_t seed) {
    Random random(seed);
    const Encoding encodings[] = {
        {Dtype::kBf16, 4, 32}, {Dtype::kBf16, 8, 32}, {Dtype::kBf16, 3, 32}, {Dtype::kBf16, 0, 0}};
    const auto add = [&](int64_t rows, int64_t cols, const Encoding& e) {
      owned.push_back(random_matrix(random, rows, cols, e));
      return owned.back().view();
    };
    owned.reserve(3 * (kExperts + 1));
    for (int64_t e = 0; e <= kExperts; ++e) {
      const Encoding& up = encodings[static_cast<size_t>(e) % 4];
      const Encoding gate{up.dtype, up.bits, e == 4 ? 64 : up.group};  // gate and up in different groups
      sources.push_back({add(kWidth, kHidden, gate), add(kWidth, kHidden, up), add(kHidden, kWidth, up)});
    }
  }

  std::vector<OwnedMatrix> owned;
  std::vector<ExpertSource> sources;
};

MoeWeights packed(const CpuBackend& cpu, const Layer& layer) {
  MoeWeights w;
  w.experts = kExperts;
  w.top_k = kTopK;
  auto experts = cpu->pack_experts(layer.sources);
  EXPECT_TRUE(experts.ok());
  w.expert = std::move(*experts);
  return w;
}

// Rows choose different experts, some many of the same, and always the shared one last.
struct RandomRouting {
  explicit RandomRouting(Random& random)
      : experts(kRows * kSlots), weights(random.floats(kRows * kSlots, 0, 1)) {
    for (int64_t t = 0; t < kRows; ++t) {
      int32_t* row = &experts[static_cast<size_t>(t * kSlots)];
      row[0] = static_cast<int32_t>(random.below(kExperts));
      row[1] = (row[0] + 1 + static_cast<int32_t>(random.below(2))) % kExperts;
      row[2] = (row[0] + 5) % kExperts;
      row[kTopK] = kExperts;
    }
  }
  Routing rows(int64_t first, int64_t count) {
    return {experts.data() + first * kSlots, weights.data() + first * kSlots, count, kSlots};
  }

  std::vector<int32_t> experts;
  std::vector<float> weights;
};

struct Outputs {
  std::vector<float> activated;
  std::vector<float> x;
};

// Both steps, rows in calls of `cut`. Results are poisoned, and the residual is not zero.
Outputs run(const CpuBackend& cpu, const MoeWeights& w, std::vector<float> normed, RandomRouting routing,
            int64_t cut) {
  Outputs out{std::vector<float>(kRows * kSlots * kWidth, std::nanf("")), normed};
  for (int64_t t = 0; t < kRows; t += cut) {
    const int64_t n = std::min(cut, kRows - t);
    const Routing r = routing.rows(t, n);
    const Rows activated{out.activated.data() + t * kSlots * kWidth, n * kSlots, kWidth};
    cpu->experts_up(activated, {normed.data() + t * kHidden, n, kHidden}, r, w);
    cpu->experts_down_add({out.x.data() + t * kHidden, n, kHidden}, activated, r, w);
  }
  return out;
}

TEST(CpuExperts, BothStepsAreWithinTheBoundOfTheirArithmetic) {
  const Layer layer(1);
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  const MoeWeights w = packed(cpu, layer);
  Random random(2);
  const std::vector<float> normed = random.floats(kRows * kHidden, -2, 2);
  RandomRouting routing(random);
  const Outputs out = run(cpu, w, normed, routing, kRows);
  for (int64_t t = 0; t < kRows; t += 5) {
    const std::span<const float> row(normed.data() + t * kHidden, kHidden);
    std::vector<Bounded> y(kHidden);
    for (int64_t s = 0; s < kSlots; ++s) {
      const auto p = static_cast<size_t>(t * kSlots + s);
      const ExpertSource& e = layer.sources[static_cast<size_t>(routing.experts[p])];
      const std::span<const float> activated(out.activated.data() + p * kWidth, kWidth);
      for (int64_t i = 0; i < kWidth; ++i) {
        const Bounded gate = exact_product(e.gate, i, row, 0, Use::kProjection);
        const Bounded up = exact_product(e.up, i, row, 0, Use::kProjection);
        const double silu = gate.value / (1 + std::exp(-gate.value));
        // The slope of silu is below 1.1; its own relative error is 3e-7 (simd_math.h).
        const double error = 1.1 * gate.error * (std::fabs(up.value) + up.error) + std::fabs(silu) * up.error;
        ASSERT_NEAR(activated[static_cast<size_t>(i)], silu * up.value,
                    error + 5e-7 * std::fabs(silu * up.value));
      }
      for (int64_t c = 0; c < kHidden; ++c) {
        const Bounded down = exact_product(e.down, c, activated, 0, Use::kProjection);
        const double weight = routing.weights[p];
        y[static_cast<size_t>(c)].value += weight * down.value;
        y[static_cast<size_t>(c)].error += weight * (down.error + (kSlots + 2) * kU * std::fabs(down.value));
      }
    }
    for (size_t c = 0; c < kHidden; ++c) {
      const double before = normed[static_cast<size_t>(t) * kHidden + c];
      const double want = before + y[c].value;
      ASSERT_NEAR(out.x[static_cast<size_t>(t) * kHidden + c], want, y[c].error + kU * std::fabs(want));
    }
  }
}

TEST(CpuExperts, BitsAreTheSameForEveryInstructionSetThreadCountAndCut) {
  const Layer layer(3);
  Random random(4);
  const std::vector<float> normed = random.floats(kRows * kHidden, -2, 2);
  const RandomRouting routing(random);
  Outputs first;
  for (const Isa isa : supported_isas()) {
    for (const int threads : {1, 2, 3, 4}) {
      const CpuBackend cpu(isa, threads, kLimits);
      const MoeWeights w = packed(cpu, layer);
      for (const int64_t cut : {1, 2, 3, 7, 9, 16, 31, 64}) {
        const Outputs out = run(cpu, w, normed, routing, cut);
        if (first.x.empty()) first = out;
        SCOPED_TRACE(std::string(isa_name(isa)) + ", " + std::to_string(threads) + " threads, rows by " +
                     std::to_string(cut));
        ASSERT_EQ(std::memcmp(out.activated.data(), first.activated.data(), out.activated.size() * 4), 0);
        ASSERT_EQ(std::memcmp(out.x.data(), first.x.data(), out.x.size() * 4), 0);
      }
    }
  }
}

// A plain float32 router whose logits for x = unit vector c are column c of `logits`.
struct Router {
  Router(const CpuBackend& cpu, const std::vector<std::vector<float>>& rows) {
    const auto cols = static_cast<int64_t>(rows.size());
    std::vector<float> values(static_cast<size_t>((kExperts + 1) * cols));
    for (size_t c = 0; c < rows.size(); ++c) {
      for (size_t e = 0; e <= kExperts; ++e) values[e * rows.size() + c] = rows[c][e];
    }
    const OwnedMatrix owned = encode_matrix(values, kExperts + 1, cols, {Dtype::kF32, 0, 0});
    const Matrix m = owned.view();
    w.experts = kExperts;
    w.top_k = kTopK;
    w.router = std::move(*cpu->pack({&m, 1}, Use::kRouter));
  }
  MoeWeights w;
};

TEST(CpuRouting, EqualLogitsGoToTheLowerExpertAndWeightsSumToOne) {
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  std::vector<std::vector<float>> logits(3, std::vector<float>(kExperts + 1, -1.0f));
  logits[0][7] = logits[0][3] = logits[0][19] = logits[0][11] = 2.0f;  // four equal: 3, 7, 11
  logits[1][5] = 1.0f;                                                 // then the lowest two of the rest
  logits[2][19] = 3.0f;
  logits[2][18] = 4.0f;
  logits[2][0] = 3.0f;
  const Router router(cpu, logits);
  std::vector<float> x(9, 0.0f), normed(9);
  for (size_t t = 0; t < 3; ++t) x[t * 3 + t] = 1.0f;
  Vector gain{zeroed(12), 3};
  std::fill_n(gain.values.floats(), 3, std::sqrt(1.0f / 3));  // undoes the norm of a unit vector
  std::vector<int32_t> experts(3 * kSlots);
  std::vector<float> weights(3 * kSlots);
  cpu->norm_route({normed.data(), 3, 3}, {experts.data(), weights.data(), 3, kSlots}, {x.data(), 3, 3}, gain,
                  0, router.w);
  EXPECT_EQ(experts, (std::vector<int32_t>{3, 7, 11, 20, 5, 0, 1, 20, 18, 0, 19, 20}));
  const double e2 = std::exp(-2.0), e1 = std::exp(-1.0);
  const double want[] = {1 / 3.0,          1 / 3.0,           1 / 3.0,
                         1 / (1 + 2 * e2), e2 / (1 + 2 * e2), e2 / (1 + 2 * e2),
                         1 / (1 + 2 * e1), e1 / (1 + 2 * e1), e1 / (1 + 2 * e1)};
  const double shared = 1 / (1 + std::exp(1.0));
  for (size_t t = 0; t < 3; ++t) {
    for (size_t s = 0; s < kTopK; ++s) EXPECT_NEAR(weights[t * kSlots + s], want[t * kTopK + s], 2e-6);
    EXPECT_NEAR(weights[t * kSlots + kTopK], shared, 2e-6);
  }
}

TEST(CpuRouting, LogitsThatAreNotNumbersStillNameExperts) {
  const CpuBackend cpu(cpu_features().best_isa(), 1, kLimits);
  const Router router(cpu, {std::vector<float>(kExperts + 1, 1.0f)});
  std::vector<float> x{std::nanf("")}, normed(1), weights(kSlots);
  std::vector<int32_t> experts(kSlots, -1);
  Vector gain{zeroed(4), 1};
  cpu->norm_route({normed.data(), 1, 1}, {experts.data(), weights.data(), 1, kSlots}, {x.data(), 1, 1}, gain,
                  1e-6f, router.w);
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 1, 2, 20}));
  EXPECT_TRUE(std::isnan(weights[0]));
}

TEST(CpuRouting, RandomLogitsAreRoutedAsByASort) {
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  Random random(5);
  for (const Encoding& encoding : {Encoding{Dtype::kBf16, 8, 64}, Encoding{Dtype::kBf16, 0, 0}}) {
    const OwnedMatrix owned = random_matrix(random, kExperts + 1, kHidden, encoding);
    const Matrix m = owned.view();
    MoeWeights w;
    w.experts = kExperts;
    w.top_k = kTopK;
    w.router = std::move(*cpu->pack({&m, 1}, Use::kRouter));
    std::vector<float> x = random.floats(kRows * kHidden, -1, 1), normed(x.size());
    const Vector gain = random.vector(kHidden, 0.5, 1.5);
    std::vector<int32_t> experts(kRows * kSlots);
    std::vector<float> weights(kRows * kSlots);
    cpu->norm_route({normed.data(), kRows, kHidden}, {experts.data(), weights.data(), kRows, kSlots},
                    {x.data(), kRows, kHidden}, gain, 1e-6f, w);
    for (int64_t t = 0; t < kRows; ++t) {
      std::vector<std::pair<double, int32_t>> order;
      const std::span<const float> row(normed.data() + t * kHidden, kHidden);
      for (int32_t e = 0; e < kExperts; ++e)
        order.push_back({-exact_product(m, e, row, 0, Use::kRouter).value, e});
      std::sort(order.begin(), order.end());
      double sum = 0;
      for (size_t s = 0; s < kTopK; ++s) sum += std::exp(order[0].first - order[s].first);
      for (size_t s = 0; s < kTopK; ++s) {
        const auto p = static_cast<size_t>(t * kSlots) + s;
        ASSERT_EQ(experts[p], order[s].second);
        ASSERT_NEAR(weights[p], std::exp(order[0].first - order[s].first) / sum, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
