// The CPU's attend against float64 computed from its formula, and against itself in other cuts, thread
// counts and instruction sets.
#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "cpu_step_support.h"
#include "kernels/cpu/attention.h"

namespace weir {
namespace {

using test::kU;

struct Shape {
  int64_t heads, kv_heads, dim, rotary;
};

AttentionWeights make_weights(const Shape& shape) {
  test::Random random(7);
  AttentionWeights w;
  w.heads = shape.heads;
  w.kv_heads = shape.kv_heads;
  w.head_dim = shape.dim;
  w.rotary_dim = shape.rotary;
  w.rope_theta = 1e7f;
  w.norm_epsilon = 1e-6f;
  w.q_norm = random.vector(shape.dim, 0.5f, 2.5f);
  w.k_norm = random.vector(shape.dim, 0.5f, 1.5f);
  return w;
}

int64_t input_width(const AttentionWeights& w) {
  return 2 * (w.heads + w.kv_heads) * w.head_dim;
}

// A sequence at `position` whose earlier keys and values are random: a few thousand numbers over and over.
SequenceState make_state(const AttentionWeights& w, int64_t position, int64_t rows, uint64_t seed) {
  constexpr int64_t kNumbers = 4099;
  const auto numbers = test::Random(seed).floats(kNumbers, -1, 1);
  SequenceState state;
  state.position = position;
  KvCache& cache = state.kv.emplace_back();
  const auto page_size = static_cast<int64_t>(cpu::kv_page_bytes(w) / sizeof(uint16_t));
  for (int64_t filled = 0; filled < (position + rows + kKvPage - 1) / kKvPage * page_size;) {
    cache.pages.push_back(test::zeroed(cpu::kv_page_bytes(w)));
    auto* page = static_cast<uint16_t*>(cache.pages.back().data());
    for (int64_t i = 0; i < page_size; ++i, ++filled) {
      if (position > 0) page[i] = to_bf16(numbers[static_cast<size_t>(filled % kNumbers)]).bits;
    }
  }
  return state;
}

struct Runner {
  const AttentionWeights& w;
  const cpu::AttentionKernels& kernels;
  int threads = 1;

  std::vector<float> run(std::vector<float>& projected, std::span<const Segment> segments) const {
    const int64_t width = input_width(w), rows = static_cast<int64_t>(projected.size()) / width;
    std::vector<float> mixed = test::poisoned(rows * w.heads * w.head_dim);
    Limits limits;
    limits.rows = rows;
    limits.widest = width;
    const test::GuardedScratch scratch(cpu::attention_scratch_bytes(limits, threads));
    ThreadPool pool(threads);
    cpu::attend(test::rows_of(mixed, w.heads * w.head_dim), test::rows_of(projected, width), w,
                {{}, segments, {}}, 0, kernels, pool, scratch.data());
    return mixed;
  }

  // All of `projected` as one sequence, in calls of the given numbers of rows.
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
      state.position += size;
    }
    return mixed;
  }
};

std::vector<float> random_input(const AttentionWeights& w, int64_t rows, uint64_t seed) {
  return test::Random(seed).floats(rows * input_width(w), -2, 2);
}

// ---- float64

struct CacheView {
  const AttentionWeights& w;
  const SequenceState& state;

  const uint16_t* head(int64_t p, int64_t h) const {
    const void* page = state.kv[0].pages[static_cast<size_t>(p / kKvPage)].data();
    return static_cast<const uint16_t*>(page) + h * 2 * kKvPage * w.head_dim;
  }
  double key(int64_t p, int64_t h, int64_t d) const {
    const int64_t i = p % kKvPage;
    return to_float(Bf16{head(p, h)[(i / 16 * w.head_dim + d) * 16 + i % 16]});
  }
  double value(int64_t p, int64_t h, int64_t d) const {
    const uint16_t* values = head(p, h) + kKvPage * w.head_dim;
    return to_float(Bf16{values[(d / 16 * kKvPage + p % kKvPage) * 16 + d % 16]});
  }
};

struct Head {
  std::vector<double> x;
  std::vector<double> error;  // of a float32 evaluation, absolute
};

// Norm and rotation. Error: the mean's sum has dim / 16 + 4 roundings on each of its terms and half of it
// reaches the root; 8 more for the other operations, of which a rotated element takes its share of both
// members of its pair.
Head norm_rotate(const float* x, const Vector& gain, int64_t position, const AttentionWeights& w) {
  const int64_t half = w.rotary_dim / 2;
  double squares = 0;
  for (int64_t d = 0; d < w.head_dim; ++d) squares += static_cast<double>(x[d]) * x[d];
  const double root = std::sqrt(squares / static_cast<double>(w.head_dim) + w.norm_epsilon);
  const double c = (static_cast<double>(w.head_dim) / 16 + 4) / 2 + 8;
  Head head;
  for (int64_t d = 0; d < w.head_dim; ++d) head.x.push_back(x[d] / root * gain.floats()[d]);
  for (const double value : head.x) head.error.push_back(c * kU * std::abs(value));
  for (int64_t i = 0; i < half; ++i) {
    const auto frequency =
        static_cast<float>(std::pow(1e7, -2.0 * static_cast<double>(i) / static_cast<double>(w.rotary_dim)));
    const double angle = static_cast<float>(position) * frequency;
    double &a = head.x[static_cast<size_t>(i)], &b = head.x[static_cast<size_t>(i + half)];
    const double u = a, v = b;
    a = u * std::cos(angle) - v * std::sin(angle);
    b = v * std::cos(angle) + u * std::sin(angle);
    head.error[static_cast<size_t>(i)] = head.error[static_cast<size_t>(i + half)] =
        c * kU * (std::abs(u) + std::abs(v));
  }
  return head;
}

// Cached keys and values are the float64 ones rounded to bfloat16, whose half step is at most 2^-8 of the
// value.
void expect_cached(const float* row, int64_t position, const AttentionWeights& w, const CacheView& cache) {
  const float* keys = row + 2 * w.heads * w.head_dim;
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    const Head key = norm_rotate(keys + h * w.head_dim, w.k_norm, position, w);
    for (int64_t d = 0; d < w.head_dim; ++d) {
      const double k = key.x[static_cast<size_t>(d)];
      ASSERT_NEAR(cache.key(position, h, d), k, 0x1p-8 * std::abs(k) + key.error[static_cast<size_t>(d)])
          << "key of position " << position << ", head " << h << ", dim " << d;
      const float v = keys[(w.kv_heads + h) * w.head_dim + d];
      ASSERT_EQ(cache.value(position, h, d), to_float(to_bf16(v)));
    }
  }
}

// One query head over the cached keys and values. Errors of a sum of n terms add up like a random walk, to
// 4 sqrt(n) roundings of its magnitude at the very most. Let E bound the error of a score: the query's error
// and that of a sum of `dim` products. A weight e^(s - max) is then off by 2 E, the rounding of s - max and 4
// roundings of e^x, relatively; numerator and denominator both are, and each is a sum of up to 256 terms in
// a page, merged with 8 roundings a page. 10 roundings for the division and the gate.
void expect_head(const float* mixed, const float* in, int64_t head, int64_t position,
                 const AttentionWeights& w, const CacheView& cache) {
  const int64_t dim = w.head_dim, kv_head = head / (w.heads / w.kv_heads), count = position + 1;
  const Head q = norm_rotate(in + 2 * head * dim, w.q_norm, position, w);
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  std::vector<double> scores;
  const double dot_roundings = 4 * std::sqrt(static_cast<double>(dim)), page_roundings = 4 * 16;
  double score_error = 0, top = -1e300, bottom = 1e300;
  for (int64_t p = 0; p < count; ++p) {
    double score = 0, error = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const auto i = static_cast<size_t>(d);
      const double k = cache.key(p, kv_head, d);
      score += q.x[i] * k * scale;
      error += (q.error[i] + dot_roundings * kU * std::abs(q.x[i])) * std::abs(k) * scale;
    }
    scores.push_back(score);
    score_error = std::max(score_error, error);
    top = std::max(top, score);
    bottom = std::min(bottom, score);
  }
  const auto pages = static_cast<double>(count / kKvPage + 1);
  const double relative =
      2 * (2 * score_error + (top - bottom + 4) * kU + (page_roundings + 8 * pages) * kU) + 10 * kU;
  for (int64_t d = 0; d < dim; ++d) {
    double sum = 0, weighted = 0, magnitude = 0;
    for (int64_t p = 0; p < count; ++p) {
      const double e = std::exp(scores[static_cast<size_t>(p)] - top), v = cache.value(p, kv_head, d);
      sum += e;
      weighted += e * v;
      magnitude += e * std::abs(v);
    }
    const double gate = 1 / (1 + std::exp(-static_cast<double>(in[(2 * head + 1) * dim + d])));
    ASSERT_NEAR(mixed[head * dim + d], weighted / sum * gate, relative * magnitude / sum * gate)
        << "position " << position << ", head " << head << ", dim " << d;
  }
}

void expect_row(const float* mixed, const float* in, int64_t position, const AttentionWeights& w,
                const SequenceState& state) {
  const CacheView cache{w, state};
  expect_cached(in, position, w, cache);
  for (int64_t h = 0; h < w.heads && !testing::Test::HasFatalFailure(); ++h) {
    expect_head(mixed, in, h, position, w, cache);
  }
}

// ---- tests

TEST(CpuAttention, EqualsFloat64WithinTheErrorOfItsRoundings) {
  const Shape shapes[] = {{16, 2, 256, 64}, {4, 2, 64, 16}, {3, 1, 48, 48}, {5, 5, 16, 4}, {14, 2, 32, 8}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads, " << shape.kv_heads << " kv, " << shape.dim);
    const AttentionWeights w = make_weights(shape);
    constexpr int64_t kRows = 300;
    auto projected = random_input(w, kRows, 1);
    SequenceState state = make_state(w, 0, kRows, 2);
    const Segment segment{&state, 0, kRows};
    const auto mixed = Runner{w, test::best_kernels().attention}.run(projected, {&segment, 1});
    for (const int64_t row : {0, 1, 15, 16, 17, 100, 255, 256, 257, 299}) {
      expect_row(mixed.data() + row * w.heads * w.head_dim, projected.data() + row * input_width(w), row, w,
                 state);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuAttention, IsAsExactAtPosition200000AsAtTheBeginning) {
  const AttentionWeights w = make_weights({4, 1, 64, 64});
  constexpr int64_t kPosition = 200000, kRows = 3;
  auto projected = random_input(w, kRows, 3);
  SequenceState state = make_state(w, kPosition, kRows, 4);
  const Segment segment{&state, 0, kRows};
  const auto mixed = Runner{w, test::best_kernels().attention, 2}.run(projected, {&segment, 1});
  const int64_t last = kRows - 1;
  expect_row(mixed.data() + last * w.heads * w.head_dim, projected.data() + last * input_width(w),
             kPosition + last, w, state);
}

TEST(CpuAttention, GivesTheSameBitsHoweverASequenceIsCut) {
  const AttentionWeights w = make_weights({8, 2, 64, 16});
  constexpr int64_t kRows = 600;
  const auto projected = random_input(w, kRows, 5);
  const Runner runner{w, test::best_kernels().attention, 2};
  SequenceState whole_state = make_state(w, 0, kRows, 6);
  const auto whole = runner.run_cut(projected, whole_state, std::vector<int64_t>{kRows});
  test::Random random(8);
  for (const int64_t largest : {1, 5, 40, 300}) {
    SequenceState state = make_state(w, 0, kRows, 6);
    const auto cut = runner.run_cut(projected, state, random.cuts(kRows, largest));
    test::expect_same_bits(cut, whole, "rows in calls of up to " + std::to_string(largest));
    for (size_t p = 0; p < state.kv[0].pages.size(); ++p) {
      EXPECT_EQ(
          std::memcmp(state.kv[0].pages[p].data(), whole_state.kv[0].pages[p].data(), cpu::kv_page_bytes(w)),
          0)
          << "page " << p;
    }
  }
}

TEST(CpuAttention, GivesTheSameBitsForEveryThreadCountAndInstructionSet) {
  for (const Shape& shape : {Shape{16, 2, 256, 64}, Shape{7, 1, 48, 16}, Shape{12, 4, 16, 16}}) {
    const AttentionWeights w = make_weights(shape);
    constexpr int64_t kPosition = 250, kRows = 12;  // on both sides of a page's end
    auto projected = random_input(w, kRows, 9);
    const auto run = [&](const cpu::AttentionKernels& kernels, int threads) {
      SequenceState state = make_state(w, kPosition, kRows, 10);
      const Segment segment{&state, 0, kRows};
      return Runner{w, kernels, threads}.run(projected, {&segment, 1});
    };
    const auto first = run(test::best_kernels().attention, 1);
    for (int threads = 2; threads <= 4; ++threads) {
      test::expect_same_bits(run(test::best_kernels().attention, threads), first,
                             std::to_string(threads) + " threads");
    }
    for (const auto& [name, kernels] : test::kernel_tables()) {
      test::expect_same_bits(run(kernels->attention, 2), first, name);
    }
  }
}

TEST(CpuAttention, TreatsTheSequencesOfABatchSeparately) {
  const AttentionWeights w = make_weights({8, 2, 64, 16});
  const Runner runner{w, test::best_kernels().attention, 3};
  const int64_t positions[] = {0, 511, 77, 5000}, rows[] = {20, 1, 0, 9};
  std::vector<SequenceState> together, apart;
  std::vector<Segment> segments;
  int64_t total = 0;
  for (size_t i = 0; i < 4; ++i) {
    together.push_back(make_state(w, positions[i], rows[i], i));
    apart.push_back(make_state(w, positions[i], rows[i], i));
  }
  for (size_t i = 0; i < 4; ++i) {
    segments.push_back({&together[i], total, rows[i]});
    total += rows[i];
  }
  auto projected = random_input(w, total, 11);
  const auto mixed = runner.run(projected, segments);
  for (size_t i = 0; i < 4; ++i) {
    const auto* from = projected.data() + segments[i].first_row * input_width(w);
    std::vector<float> part(from, from + rows[i] * input_width(w));
    const Segment alone{&apart[i], 0, rows[i]};
    const auto out = runner.run(part, {&alone, 1});
    const int64_t width = w.heads * w.head_dim;
    test::expect_same_bits(
        out, std::span(mixed).subspan(static_cast<size_t>(segments[i].first_row * width), out.size()),
        "sequence " + std::to_string(i));
  }
}

TEST(CpuAttention, DoesNotLookAtPositionsBeyondTheRow) {
  const AttentionWeights w = make_weights({4, 2, 32, 8});
  auto projected = random_input(w, 1, 12);
  const Runner runner{w, test::best_kernels().attention};
  std::vector<float> outputs[2];
  for (const bool poison : {false, true}) {
    SequenceState state = make_state(w, 37, 1, 13);
    auto* page = static_cast<uint16_t*>(state.kv[0].pages[0].data());
    for (int64_t h = 0; h < w.kv_heads && poison; ++h) {
      uint16_t* keys = page + h * 2 * kKvPage * w.head_dim;
      for (int64_t p = 38; p < kKvPage; ++p) {
        for (int64_t d = 0; d < w.head_dim; ++d) {
          keys[(p / 16 * w.head_dim + d) * 16 + p % 16] = 0x7fc0;  // NaN
          keys[kKvPage * w.head_dim + (d / 16 * kKvPage + p) * 16 + d % 16] = 0x7fc0;
        }
      }
    }
    const Segment segment{&state, 0, 1};
    outputs[poison] = runner.run(projected, {&segment, 1});
  }
  test::expect_same_bits(outputs[1], outputs[0], "with NaNs behind the row");
}

}  // namespace
}  // namespace weir
