// The CPU's attend against float64 computed from its formula, and against itself in other cuts, thread
// counts and instruction sets.
#include <algorithm>
#include <cmath>

#include "cpu_attention_support.h"
#include "kernels/cpu/attention.h"

namespace weir {
namespace {

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

// A sequence at `position` whose earlier keys and values are random.
SequenceState make_state(const AttentionWeights& w, int64_t position, int64_t rows, uint64_t seed) {
  SequenceState state;
  state.position = position;
  state.kv.push_back(test::random_pages(position + rows, cpu::kv_page_bytes(w), seed));
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

test::Head norm_rotate(const float* x, const Vector& gain, int64_t position, const AttentionWeights& w) {
  const test::Turning turning{w.rope_theta, w.rotary_dim, w.rotary_dim / 2, w.rotary_dim / 2};
  return test::norm_rotate(x, &gain, w.head_dim, w.norm_epsilon, turning, position);
}

void expect_cached(const float* row, int64_t position, const AttentionWeights& w, const KvCache& cache) {
  const float* keys = row + 2 * w.heads * w.head_dim;
  const test::CachedPosition stored = test::cached(cache, position, w.head_dim);
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    SCOPED_TRACE(testing::Message() << "key of position " << position << ", head " << h);
    test::expect_rounded(norm_rotate(keys + h * w.head_dim, w.k_norm, position, w),
                         [&](int64_t d) { return stored.key(h, d); });
    for (int64_t d = 0; d < w.head_dim; ++d) {
      const float v = keys[(w.kv_heads + h) * w.head_dim + d];
      ASSERT_EQ(stored.value(h, d), to_float(to_bf16(v)));
    }
  }
}

// One query head over the cached keys and values.
void expect_head(const float* mixed, const float* in, int64_t head, int64_t position,
                 const AttentionWeights& w, const KvCache& cache) {
  SCOPED_TRACE(testing::Message() << "position " << position << ", head " << head);
  std::vector<test::CachedPosition> seen;
  for (int64_t p = 0; p <= position; ++p) seen.push_back(test::cached(cache, p, w.head_dim));
  std::vector<double> gate;
  for (int64_t d = 0; d < w.head_dim; ++d) {
    gate.push_back(1 / (1 + std::exp(-static_cast<double>(in[(2 * head + 1) * w.head_dim + d]))));
  }
  test::expect_attended(
      mixed + head * w.head_dim, norm_rotate(in + 2 * head * w.head_dim, w.q_norm, position, w),
      1 / std::sqrt(static_cast<double>(w.head_dim)), gate.data(), seen, head / (w.heads / w.kv_heads));
}

void expect_row(const float* mixed, const float* in, int64_t position, const AttentionWeights& w,
                const SequenceState& state) {
  const KvCache& cache = state.kv.front();
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
    for (int64_t p = 38; p < kKvPage && poison; ++p) {
      test::cached(state.kv[0], p, w.head_dim).poison(w.kv_heads);
    }
    const Segment segment{&state, 0, 1};
    outputs[poison] = runner.run(projected, {&segment, 1});
  }
  test::expect_same_bits(outputs[1], outputs[0], "with NaNs behind the row");
}

}  // namespace
}  // namespace weir
