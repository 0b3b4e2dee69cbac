// The CPU's delta_rule against float64 computed from its formula, and against itself in other cuts, thread
// counts and instruction sets.
#include <algorithm>
#include <cmath>

#include "cpu_step_support.h"
#include "kernels/cpu/delta_rule.h"

namespace weir {
namespace {

using test::kU;

struct Shape {
  int64_t key_heads, value_heads, key_dim, value_dim, taps;
};

DeltaWeights make_weights(const Shape& shape) {
  test::Random random(21);
  DeltaWeights w;
  w.key_heads = shape.key_heads;
  w.value_heads = shape.value_heads;
  w.key_dim = shape.key_dim;
  w.value_dim = shape.value_dim;
  w.taps = shape.taps;
  w.norm_epsilon = 1e-6f;
  w.conv = random.vector(w.taps * w.channels(), -1, 1);
  w.decay = random.vector(w.value_heads, 0.01f, 2);
  w.dt_bias = random.vector(w.value_heads, -4, 1);
  w.norm = random.vector(w.value_dim, 0.5f, 1.5f);
  return w;
}

int64_t input_width(const DeltaWeights& w) {
  return w.channels() + w.value_heads * (w.value_dim + 2);
}
int64_t output_width(const DeltaWeights& w) {
  return w.value_heads * w.value_dim;
}
int64_t state_size(const DeltaWeights& w) {
  return w.value_heads * w.key_dim * w.value_dim;
}

// A sequence that has seen something before, or nothing if `seed` is 0.
SequenceState make_state(const DeltaWeights& w, uint64_t seed) {
  test::Random random(seed);
  const float range = seed == 0 ? 0 : 1;
  SequenceState state;
  DeltaState& delta = state.delta.emplace_back();
  delta.recurrent = random.vector(state_size(w), -range, range).values;
  delta.conv = random.vector((w.taps - 1) * w.channels(), -range, range).values;
  return state;
}

std::span<const float> recurrent(const SequenceState& state, const DeltaWeights& w) {
  return {state.delta[0].recurrent.floats(), static_cast<size_t>(state_size(w))};
}
std::span<const float> carried(const SequenceState& state, const DeltaWeights& w) {
  return {state.delta[0].conv.floats(), static_cast<size_t>((w.taps - 1) * w.channels())};
}

struct Runner {
  const DeltaWeights& w;
  const cpu::DeltaKernels& kernels;
  int threads = 1;

  std::vector<float> run(std::vector<float>& projected, std::span<const Segment> segments) const {
    const int64_t rows = static_cast<int64_t>(projected.size()) / input_width(w);
    std::vector<float> mixed = test::poisoned(rows * output_width(w));
    Limits limits;
    limits.rows = rows;
    limits.widest = input_width(w);
    const test::GuardedScratch scratch(cpu::delta_rule_scratch_bytes(limits, threads));
    ThreadPool pool(threads);
    cpu::delta_rule(test::rows_of(mixed, output_width(w)), test::rows_of(projected, input_width(w)), w,
                    {{}, segments, {}}, 0, kernels, pool, scratch.data());
    return mixed;
  }

  std::vector<float> run_cut(const std::vector<float>& projected, SequenceState& state,
                             std::span<const int64_t> sizes) const {
    std::vector<float> mixed;
    auto from = projected.begin();
    for (const int64_t size : sizes) {
      std::vector<float> part(from, from + size * input_width(w));
      from += size * input_width(w);
      const Segment segment{&state, 0, size};
      const auto out = run(part, {&segment, 1});
      mixed.insert(mixed.end(), out.begin(), out.end());
    }
    return mixed;
  }
};

std::vector<float> random_input(const DeltaWeights& w, int64_t rows, uint64_t seed) {
  return test::Random(seed).floats(rows * input_width(w), -3, 3);
}

// ---- float64

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// A vector and a bound on the error of its float32 evaluation: of each element, or, for unit vectors, of the
// whole in the 2-norm.
struct Vector64 {
  std::vector<double> x, error;
  double norm_error = 0;

  double norm() const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    return std::sqrt(squares);
  }
};

// One sequence, all in float64, with a running bound on what float32 may differ by.
class Truth {
 public:
  Truth(const DeltaWeights& w, const SequenceState& state)
      : w_(w),
        state_(recurrent(state, w).begin(), recurrent(state, w).end()),
        state_error_(static_cast<size_t>(w.value_heads * w.value_dim)),
        window_(carried(state, w).begin(), carried(state, w).end()) {}

  // Checks one row of output, and moves on.
  void check_row(const float* mixed, const float* in, int64_t row) {
    window_.insert(window_.end(), in, in + w_.channels());
    for (int64_t h = 0; h < w_.value_heads && !testing::Test::HasFatalFailure(); ++h) {
      SCOPED_TRACE(testing::Message() << "row " << row << ", head " << h);
      check_head(mixed + h * w_.value_dim, in, h);
    }
    window_.erase(window_.begin(), window_.begin() + w_.channels());
  }

  void check_state(const SequenceState& state) const {
    test::expect_same_bits(carried(state, w_), window_, "convolution state");
    const auto actual = recurrent(state, w_);
    for (int64_t h = 0; h < w_.value_heads; ++h) {
      for (int64_t i = 0; i < w_.key_dim; ++i) {
        for (int64_t j = 0; j < w_.value_dim; ++j) {
          const auto at = static_cast<size_t>((h * w_.key_dim + i) * w_.value_dim + j);
          ASSERT_NEAR(actual[at], state_[at], error_of(h, j)) << "state " << h << ", " << i << ", " << j;
        }
      }
    }
  }

 private:
  double error_of(int64_t h, int64_t j) const {
    return state_error_[static_cast<size_t>(h * w_.value_dim + j)];
  }

  // A fused sum has one rounding for each tap, on no more than the sum of magnitudes; |silu'| < 1.1, and silu
  // itself has 5 roundings.
  Vector64 convolved(int64_t channel, int64_t count) const {
    Vector64 out;
    for (int64_t c = channel; c < channel + count; ++c) {
      double sum = 0, magnitude = 0;
      for (int64_t j = 0; j < w_.taps; ++j) {
        const auto at = static_cast<size_t>(j * w_.channels() + c);
        sum += static_cast<double>(w_.conv.floats()[at]) * window_[at];
        magnitude += std::abs(w_.conv.floats()[at] * window_[at]);
      }
      out.x.push_back(silu(sum));
      out.error.push_back(kU * (1.1 * static_cast<double>(w_.taps) * magnitude + 5 * std::abs(silu(sum))));
    }
    return out;
  }

  // An error of the input turns the unit vector by at most twice its share of the length; the sum of squares
  // has dim / 16 + 4 roundings, of which half reach the root; 5 for the rest.
  static Vector64 unit(Vector64 v, double scale) {
    double squares = 1e-6, error = 0;
    for (const double x : v.x) squares += x * x;
    for (const double e : v.error) error += e * e;
    const double roundings = (static_cast<double>(v.x.size()) / 16 + 4) / 2 + 5;
    for (double& x : v.x) x *= scale / std::sqrt(squares);
    v.norm_error = scale * (2 * std::sqrt(error / squares) + roundings * kU);
    return v;
  }

  void check_head(const float* mixed, const float* in, int64_t h) {
    const int64_t keys = w_.key_heads * w_.key_dim, key_head = h / (w_.value_heads / w_.key_heads);
    const Vector64 q =
        unit(convolved(key_head * w_.key_dim, w_.key_dim), 1 / std::sqrt(static_cast<double>(w_.key_dim)));
    const Vector64 k = unit(convolved(keys + key_head * w_.key_dim, w_.key_dim), 1);
    const Vector64 v = convolved(2 * keys + h * w_.value_dim, w_.value_dim);
    const float* z = in + w_.channels() + h * w_.value_dim;
    const float* gates = in + w_.channels() + w_.value_heads * w_.value_dim;
    const double beta = sigmoid(gates[h]);
    const double g = -static_cast<double>(w_.decay.floats()[h]) *
                     softplus(static_cast<double>(gates[w_.value_heads + h]) + w_.dt_bias.floats()[h]);
    const Vector64 o = recur(h, q, k, v, g, beta);
    check_gated(mixed, o, z);
  }

  // Column j of S goes to decay (I - beta k k^T) S_j + beta v_j k, a map that does not lengthen differences,
  // as |k| <= 1 and beta <= 1. What a step adds to the error: that of the correction (from v, k, the sum's
  // 4 sqrt(key_dim / 4) + 2 roundings, 8 others), of k, of the decay (g has 9 roundings, e^g 3), and two
  // roundings of the new state.
  Vector64 recur(int64_t h, const Vector64& q, const Vector64& k, const Vector64& v, double g, double beta) {
    const double decay = std::exp(g), decay_error = (9 * std::abs(g) + 3) * kU;
    const double sum_error = (4 * std::sqrt(static_cast<double>(w_.key_dim) / 4) + 2) * kU;
    Vector64 o;
    for (int64_t j = 0; j < w_.value_dim; ++j) {
      const auto column = [&](int64_t i) -> double& {
        return state_[static_cast<size_t>((h * w_.key_dim + i) * w_.value_dim + j)];
      };
      const double value = v.x[static_cast<size_t>(j)];
      double recalled = 0, out = 0, before = 0, after = 0;
      for (int64_t i = 0; i < w_.key_dim; ++i) {
        before += column(i) * column(i);
        column(i) *= decay;
        recalled += column(i) * k.x[static_cast<size_t>(i)];
      }
      const double correction = beta * (value - recalled);
      for (int64_t i = 0; i < w_.key_dim; ++i) {
        column(i) += k.x[static_cast<size_t>(i)] * correction;
        out += column(i) * q.x[static_cast<size_t>(i)];
        after += column(i) * column(i);
      }
      before = std::sqrt(before);
      after = std::sqrt(after);
      double& error = state_error_[static_cast<size_t>(h * w_.value_dim + j)];
      error = decay * error + v.error[static_cast<size_t>(j)] +
              before * (k.norm_error + sum_error + 2 * decay_error) +
              (8 * kU + k.norm_error) * (std::abs(value) + before) + 2 * kU * (before + std::abs(correction));
      o.x.push_back(out);
      o.error.push_back(q.norm() * error + after * (q.norm_error + sum_error * q.norm()));
    }
    return o;
  }

  // The norm divides the error by the root mean square, and adds what the error does to that; 20 roundings.
  void check_gated(const float* mixed, const Vector64& o, const float* z) const {
    double squares = 0, error = 0;
    for (const double x : o.x) squares += x * x;
    for (const double e : o.error) error += e * e;
    const double root = std::sqrt(squares / static_cast<double>(o.x.size()) + w_.norm_epsilon);
    const double root_error = std::sqrt(error / static_cast<double>(o.x.size())) / root;
    for (int64_t j = 0; j < w_.value_dim; ++j) {
      const auto i = static_cast<size_t>(j);
      const double gate = w_.norm.floats()[j] * silu(z[j]) / root;
      ASSERT_NEAR(mixed[j], o.x[i] * gate,
                  1.01 * std::abs(gate) * (o.error[i] + std::abs(o.x[i]) * (root_error + 20 * kU)))
          << "column " << j;
    }
  }

  const DeltaWeights& w_;
  std::vector<double> state_;
  std::vector<double> state_error_;  // of each column's 2-norm
  std::vector<float> window_;        // [taps, channels] while a row is checked
};

// ---- tests

TEST(CpuDeltaRule, EqualsFloat64WithinTheErrorOfItsRoundings) {
  const Shape shapes[] = {{2, 4, 128, 128, 4}, {1, 3, 32, 80, 4}, {2, 2, 16, 16, 2}, {1, 2, 48, 144, 3}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.value_heads << " heads of " << shape.key_dim << " x "
                                    << shape.value_dim << ", " << shape.taps << " taps");
    const DeltaWeights w = make_weights(shape);
    for (const uint64_t seed : {0, 22}) {
      constexpr int64_t kRows = 90;
      auto projected = random_input(w, kRows, 23);
      SequenceState state = make_state(w, seed);
      Truth truth(w, state);
      const Segment segment{&state, 0, kRows};
      const auto mixed = Runner{w, test::best_kernels().delta}.run(projected, {&segment, 1});
      for (int64_t row = 0; row < kRows; ++row) {
        truth.check_row(mixed.data() + row * output_width(w), projected.data() + row * input_width(w), row);
        if (HasFatalFailure()) return;
      }
      truth.check_state(state);
    }
  }
}

// One head with key_dim = value_dim = 2, worked out by hand in float64; what lies beyond is zero.
TEST(CpuDeltaRule, RecurrenceGivesTheWorkedExample) {
  constexpr int64_t kTokens = 3, kWide = 16;
  const float q[] = {3, 1, -1, 1, 1, 2}, k[] = {2, -1, 1, 1, -2, 1};
  const float v[kTokens][kWide] = {{0.5f, -1.5f}, {1, 2}, {-1, 0.5f}};
  const float a[] = {0.3f, -0.4f, 1.5f}, b[] = {0.2f, 1.0f, -0.7f};
  const float expected_o[kTokens][2] = {
      {0.137458f, -0.412375f}, {-0.128228f, 0.384683f}, {0.092472f, 0.214691f}};
  const float expected_state[2][2] = {{0.404246f, -0.020905f}, {-0.055912f, 0.349908f}};
  for (const auto& [name, tables] : test::kernel_tables()) {
    SCOPED_TRACE(name);
    const cpu::DeltaKernels& kernels = tables->delta;
    float wide_q[kTokens][kWide] = {}, wide_k[kTokens][kWide] = {};
    for (int64_t t = 0; t < kTokens; ++t) {
      std::copy_n(q + 2 * t, 2, wide_q[t]);
      std::copy_n(k + 2 * t, 2, wide_k[t]);
      kernels.normalise(wide_q[t], std::sqrt(0.5f), kWide);
      kernels.normalise(wide_k[t], 1, kWide);
    }
    float decay[kTokens], beta[kTokens];
    std::copy_n(a, kTokens, decay);
    std::copy_n(b, kTokens, beta);
    kernels.gates(decay, beta, std::exp(0.5f), -1, kTokens);
    EXPECT_NEAR(decay[0], std::exp(-0.664741f), 1e-6);
    EXPECT_NEAR(beta[0], 0.549834f, 1e-6);
    float state[kWide][kWide] = {}, o[kTokens][kWide], scratch[kWide * cpu::kColumns];
    kernels.recur(
        {state[0], wide_q[0], wide_k[0], v[0], decay, beta, o[0], kWide, kTokens, kWide, kWide, scratch});
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int j = 0; j < 2; ++j) EXPECT_NEAR(o[t][j], expected_o[t][j], 1e-6) << t << ", " << j;
    }
    for (int i = 0; i < kWide; ++i) {
      for (int j = 0; j < kWide; ++j) {
        EXPECT_NEAR(state[i][j], i < 2 && j < 2 ? expected_state[i][j] : 0.0f, 1e-6) << i << ", " << j;
      }
    }
  }
}

TEST(CpuDeltaRule, GivesTheSameBitsHoweverASequenceIsCut) {
  const DeltaWeights w = make_weights({2, 4, 32, 48, 4});
  constexpr int64_t kRows = 200;
  const auto projected = random_input(w, kRows, 24);
  const Runner runner{w, test::best_kernels().delta, 2};
  SequenceState whole_state = make_state(w, 25);
  const auto whole = runner.run_cut(projected, whole_state, std::vector<int64_t>{kRows});
  test::Random random(26);
  for (const int64_t largest : {1, 3, 20, 150}) {
    SequenceState state = make_state(w, 25);
    const auto cut = runner.run_cut(projected, state, random.cuts(kRows, largest));
    const std::string what = "rows in calls of up to " + std::to_string(largest);
    test::expect_same_bits(cut, whole, what);
    test::expect_same_bits(recurrent(state, w), recurrent(whole_state, w), what + ", state");
    test::expect_same_bits(carried(state, w), carried(whole_state, w), what + ", convolution state");
  }
}

TEST(CpuDeltaRule, GivesTheSameBitsForEveryThreadCountAndInstructionSet) {
  for (const Shape& shape : {Shape{2, 4, 128, 128, 4}, Shape{1, 3, 32, 80, 3}}) {
    const DeltaWeights w = make_weights(shape);
    constexpr int64_t kRows = 40;
    auto projected = random_input(w, kRows, 27);
    std::vector<float> first, first_state;
    for (const auto& [name, kernels] : test::kernel_tables()) {
      for (int threads = 1; threads <= 4; ++threads) {
        SequenceState state = make_state(w, 28);
        const Segment segment{&state, 0, kRows};
        const auto mixed = Runner{w, kernels->delta, threads}.run(projected, {&segment, 1});
        const auto after = recurrent(state, w);
        if (first.empty()) {
          first = mixed;
          first_state.assign(after.begin(), after.end());
        }
        const std::string what = name + " with " + std::to_string(threads) + " threads";
        test::expect_same_bits(mixed, first, what);
        test::expect_same_bits(after, first_state, what + ", state");
      }
    }
  }
}

TEST(CpuDeltaRule, TreatsTheSequencesOfABatchSeparately) {
  const DeltaWeights w = make_weights({2, 4, 32, 32, 4});
  const Runner runner{w, test::best_kernels().delta, 3};
  const int64_t rows[] = {40, 1, 0, 2};
  std::vector<SequenceState> together, apart;
  std::vector<Segment> segments;
  int64_t total = 0;
  for (size_t i = 0; i < 4; ++i) {
    together.push_back(make_state(w, 30 + i));
    apart.push_back(make_state(w, 30 + i));
  }
  for (size_t i = 0; i < 4; ++i) {
    segments.push_back({&together[i], total, rows[i]});
    total += rows[i];
  }
  auto projected = random_input(w, total, 29);
  const auto mixed = runner.run(projected, segments);
  for (size_t i = 0; i < 4; ++i) {
    const auto* from = projected.data() + segments[i].first_row * input_width(w);
    std::vector<float> part(from, from + rows[i] * input_width(w));
    const Segment alone{&apart[i], 0, rows[i]};
    const auto out = runner.run(part, {&alone, 1});
    const auto first = static_cast<size_t>(segments[i].first_row * output_width(w));
    const std::string what = "sequence " + std::to_string(i);
    test::expect_same_bits(out, std::span(mixed).subspan(first, out.size()), what);
    test::expect_same_bits(recurrent(apart[i], w), recurrent(together[i], w), what);
    test::expect_same_bits(carried(apart[i], w), carried(together[i], w), what);
  }
}

}  // namespace
}  // namespace weir
