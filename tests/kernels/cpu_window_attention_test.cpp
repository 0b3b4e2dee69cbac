// The CPU's attention of block diffusion against float64 computed from its formula, and against itself in
// other cuts, companies, thread counts and instruction sets.
#include <algorithm>
#include <numeric>

#include "cpu_attention_support.h"
#include "kernels/cpu/kv_page.h"
#include "kernels/cpu/window_attention.h"

namespace weir {
namespace {

struct Shape {
  int64_t heads, kv_heads, dim, window, pairs;
  bool values_are_keys;
};

// DiffusionGemma's two kinds of layer, and small ones.
constexpr Shape kSliding{16, 8, 256, 1024, 128, false};
constexpr Shape kFull{16, 2, 512, 0, 64, true};
constexpr Shape kSmall{6, 2, 32, 40, 16, false};

WindowedAttentionWeights make_weights(const Shape& shape) {
  test::Random random(7);
  WindowedAttentionWeights w;
  w.heads = shape.heads;
  w.kv_heads = shape.kv_heads;
  w.head_dim = shape.dim;
  w.window = shape.window;
  w.rotated_pairs = shape.pairs;
  w.values_are_keys = shape.values_are_keys;
  w.rope_theta = 1e4f;
  w.norm_epsilon = 1e-6f;
  // Scores are not scaled: with gains of 1 they would reach head_dim.
  w.q_norm = random.vector(shape.dim, 0.05f, 0.5f);
  w.k_norm = random.vector(shape.dim, 0.05f, 0.5f);
  return w;
}

int64_t input_width(const WindowedAttentionWeights& w) {
  return (w.heads + (w.values_are_keys ? 1 : 2) * w.kv_heads) * w.head_dim;
}
int64_t output_width(const WindowedAttentionWeights& w) {
  return w.heads * w.head_dim;
}

KvCache random_pages(const WindowedAttentionWeights& w, int64_t positions, uint64_t seed) {
  return test::random_pages(positions, cpu::page_bytes(w.kv_heads, w.head_dim), seed);
}

SequenceState make_state(const WindowedAttentionWeights& w, int64_t position, int64_t rows, uint64_t seed) {
  SequenceState state;
  state.position = position;
  state.kv.push_back(random_pages(w, position + rows, seed));
  return state;
}

CanvasState make_canvas(const WindowedAttentionWeights& w, uint64_t seed) {
  CanvasState canvas;
  canvas.kv.push_back(random_pages(w, 1, seed));
  return canvas;
}

std::vector<float> random_input(const WindowedAttentionWeights& w, int64_t rows, uint64_t seed) {
  return test::Random(seed).floats(rows * input_width(w), -2, 2);
}

std::vector<float> rows_of_input(const WindowedAttentionWeights& w, const std::vector<float>& input,
                                 std::span<const int32_t> rows) {
  std::vector<float> some;
  for (const int32_t r : rows) {
    const auto from = input.begin() + r * input_width(w);
    some.insert(some.end(), from, from + input_width(w));
  }
  return some;
}

std::span<const float> row(const std::vector<float>& values, int64_t r, int64_t width) {
  return std::span(values).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
}

std::vector<int32_t> all_slots(int64_t length) {
  std::vector<int32_t> slots(static_cast<size_t>(length));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

struct Runner {
  const WindowedAttentionWeights& w;
  const cpu::AttentionKernels& kernels = test::best_kernels().attention;
  int threads = 2;

  std::vector<float> run(std::vector<float> projected, std::span<const Segment> segments,
                         std::span<const CanvasSegment> canvases, bool canvas_only = false) const {
    const int64_t rows = static_cast<int64_t>(projected.size()) / input_width(w);
    std::vector<float> mixed = test::poisoned(rows * output_width(w));
    Limits limits;
    limits.rows = rows;
    limits.widest = input_width(w);
    const test::GuardedScratch scratch(cpu::window_scratch_bytes(limits, threads));
    ThreadPool pool(threads);
    CanvasBatch batch;
    const std::vector<int32_t> tokens(static_cast<size_t>(rows));
    batch.tokens = tokens;
    batch.segments = segments;
    batch.canvases = canvases;
    cpu::attend_window(test::rows_of(mixed, output_width(w)), test::rows_of(projected, input_width(w)), w,
                       batch, 0, canvas_only, kernels, pool, scratch.data());
    return mixed;
  }

  // All of `input` as rows of one sequence, in calls of the given numbers of rows.
  std::vector<float> run_cut(const std::vector<float>& input, SequenceState& state,
                             std::span<const int64_t> sizes) const {
    std::vector<float> mixed;
    auto from = input.begin();
    for (const int64_t size : sizes) {
      const Segment segment{&state, 0, size};
      const auto out = run({from, from + size * input_width(w)}, {&segment, 1}, {});
      from += size * input_width(w);
      mixed.insert(mixed.end(), out.begin(), out.end());
      state.position += size;
    }
    return mixed;
  }

  std::vector<float> run_canvas(const std::vector<float>& input, SequenceState& state, CanvasState& canvas,
                                int64_t length, std::span<const int32_t> slots) const {
    const CanvasSegment segment{&state, &canvas, state.position, length, 0, slots};
    return run(input, {}, {&segment, 1});
  }
};

void expect_same_pages(const KvCache& a, const KvCache& b) {
  ASSERT_EQ(a.pages.size(), b.pages.size());
  for (size_t p = 0; p < a.pages.size(); ++p) {
    EXPECT_EQ(std::memcmp(a.pages[p].data(), b.pages[p].data(), a.pages[p].bytes()), 0) << "page " << p;
  }
}

// ---- float64

test::Head norm_rotate(const float* x, const Vector& gain, int64_t position,
                       const WindowedAttentionWeights& w) {
  const test::Turning turning{w.rope_theta, w.head_dim, w.rotated_pairs, w.head_dim / 2};
  return test::norm_rotate(x, &gain, w.head_dim, w.norm_epsilon, turning, position);
}

void expect_cached(const float* in, int64_t position, const WindowedAttentionWeights& w,
                   const test::CachedPosition& stored) {
  const float* keys = in + w.heads * w.head_dim;
  const float* values = w.values_are_keys ? keys : keys + w.kv_heads * w.head_dim;
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    SCOPED_TRACE(testing::Message() << "cached position " << position << ", head " << h);
    test::expect_rounded(norm_rotate(keys + h * w.head_dim, w.k_norm, position, w),
                         [&](int64_t d) { return stored.key(h, d); });
    test::expect_rounded(
        test::norm_rotate(values + h * w.head_dim, nullptr, w.head_dim, w.norm_epsilon, {}, position),
        [&](int64_t d) { return stored.value(h, d); });
  }
}

void expect_row(const float* mixed, const float* in, int64_t position, const WindowedAttentionWeights& w,
                const std::vector<test::CachedPosition>& seen) {
  for (int64_t h = 0; h < w.heads && !testing::Test::HasFatalFailure(); ++h) {
    SCOPED_TRACE(testing::Message() << "position " << position << ", head " << h);
    const int64_t at = h * w.head_dim;
    test::expect_attended(mixed + at, norm_rotate(in + at, w.q_norm, position, w), 1, nullptr, seen,
                          h / (w.heads / w.kv_heads));
  }
}

std::vector<test::CachedPosition> positions(const KvCache& cache, int64_t first, int64_t end, int64_t dim) {
  std::vector<test::CachedPosition> seen;
  for (int64_t p = first; p < end; ++p) seen.push_back(test::cached(cache, p, dim));
  return seen;
}

std::vector<test::CachedPosition> seen_by_causal_row(const WindowedAttentionWeights& w,
                                                     const SequenceState& state, int64_t position) {
  const int64_t first = w.window == 0 ? 0 : std::max<int64_t>(0, position - w.window + 1);
  return positions(state.kv[0], first, position + 1, w.head_dim);
}

std::vector<test::CachedPosition> seen_by_canvas_row(const WindowedAttentionWeights& w,
                                                     const SequenceState& state, const CanvasState& canvas,
                                                     int64_t committed, int64_t length) {
  const int64_t shown = w.window == 0 ? committed : std::min(committed, w.window - 1);
  auto seen = positions(state.kv[0], committed - shown, committed, w.head_dim);
  const auto slots = positions(canvas.kv[0], 0, length, w.head_dim);
  seen.insert(seen.end(), slots.begin(), slots.end());
  return seen;
}

// ---- causal rows

TEST(CpuWindowAttention, CausalRowsEqualFloat64WithinTheErrorOfTheirRoundings) {
  for (const Shape& shape :
       {kSliding, kFull, kSmall, Shape{4, 4, 16, 257, 3, false}, Shape{9, 3, 48, 1, 24, true}}) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.dim << ", window "
                                    << shape.window);
    const WindowedAttentionWeights w = make_weights(shape);
    const int64_t start = std::max<int64_t>(0, w.window - 100), rows = 300;
    const auto input = random_input(w, rows, 1);
    SequenceState state = make_state(w, start, rows, 2);
    const Segment segment{&state, 0, rows};
    const auto mixed = Runner{w}.run(input, {&segment, 1}, {});
    for (const int64_t r : {0, 1, 17, 98, 99, 100, 101, 255, 256, 299}) {
      const float* in = input.data() + r * input_width(w);
      expect_cached(in, start + r, w, test::cached(state.kv[0], start + r, w.head_dim));
      expect_row(mixed.data() + r * output_width(w), in, start + r, w,
                 seen_by_causal_row(w, state, start + r));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuWindowAttention, CausalRowsHaveTheSameBitsHoweverTheirSequenceIsCut) {
  constexpr int64_t kRows = 620;
  test::Random random(8);
  for (const int64_t window : {0, 1, 2, 40, 255, 256, 257, 300}) {
    const WindowedAttentionWeights w = make_weights({6, 2, 32, window, 16, false});
    const auto input = random_input(w, kRows, 5);
    SequenceState whole_state = make_state(w, 0, kRows, 6);
    const auto whole = Runner{w}.run_cut(input, whole_state, std::vector<int64_t>{kRows});
    std::vector<std::vector<int64_t>> all_cuts{{window + 1, kRows - window - 1}};  // at the window's edge
    for (const int64_t largest : {1, 5, 40, 300}) all_cuts.push_back(random.cuts(kRows, largest));
    for (const auto& cuts : all_cuts) {
      for (const int threads : {1, 3}) {
        SequenceState state = make_state(w, 0, kRows, 6);
        const auto cut = Runner{w, test::best_kernels().attention, threads}.run_cut(input, state, cuts);
        test::expect_same_bits(cut, whole,
                               "window " + std::to_string(window) + ", first call of " +
                                   std::to_string(cuts.front()) + " rows, " + std::to_string(threads) +
                                   " threads");
        expect_same_pages(state.kv[0], whole_state.kv[0]);
      }
    }
  }
}

TEST(CpuWindowAttention, ACausalRowDoesNotLookOutsideItsWindow) {
  const WindowedAttentionWeights w = make_weights(kSmall);
  for (const int64_t position : {0, 37, 39, 40, 255, 256, 290, 295, 296, 600}) {
    const auto input = random_input(w, 1, 12);
    std::vector<float> outputs[2];
    for (const bool poison : {false, true}) {
      SequenceState state = make_state(w, position, kKvPage, 13);
      for (int64_t p = 0; p < position + kKvPage && poison; ++p) {
        if (p <= position - w.window || p > position) test::cached(state.kv[0], p, w.head_dim).poison(2);
      }
      const Segment segment{&state, 0, 1};
      outputs[poison] = Runner{w}.run(input, {&segment, 1}, {});
    }
    test::expect_same_bits(outputs[1], outputs[0], "NaNs around position " + std::to_string(position));
  }
}

// ---- canvas rows

TEST(CpuWindowAttention, CanvasRowsEqualFloat64WithinTheErrorOfTheirRoundings) {
  const std::pair<Shape, int64_t> cases[] = {{kSliding, 1279}, {kFull, 700},  {kSliding, 100}, {kSmall, 0},
                                             {kSmall, 38},     {kSmall, 39},  {kSmall, 40},    {kSmall, 295},
                                             {kSmall, 296},    {kSmall, 1000}};
  for (const auto& [shape, committed] : cases) {
    SCOPED_TRACE(testing::Message() << shape.dim << " dims, " << committed << " committed");
    const WindowedAttentionWeights w = make_weights(shape);
    const int64_t length = shape.dim == 32 ? 77 : 256;
    const auto input = random_input(w, length, 21);
    SequenceState state = make_state(w, committed, 0, 22);
    CanvasState canvas = make_canvas(w, 23);
    const auto mixed = Runner{w}.run_canvas(input, state, canvas, length, all_slots(length));
    const auto seen = seen_by_canvas_row(w, state, canvas, committed, length);
    for (const int64_t r : {int64_t{0}, int64_t{1}, length / 2, length - 1}) {
      const float* in = input.data() + r * input_width(w);
      expect_cached(in, committed + r, w, test::cached(canvas.kv[0], r, w.head_dim));
      expect_row(mixed.data() + r * output_width(w), in, committed + r, w, seen);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuWindowAttention, ACanvasRowDoesNotLookOutsideItsRectangle) {
  const WindowedAttentionWeights w = make_weights(kSmall);
  constexpr int64_t kLength = 50;
  for (const int64_t committed : {0, 38, 39, 40, 255, 294, 295, 296, 600}) {
    const auto input = random_input(w, kLength, 31);
    std::vector<float> outputs[2];
    for (const bool poison : {false, true}) {
      SequenceState state = make_state(w, committed, kKvPage, 32);
      CanvasState canvas = make_canvas(w, 33);
      for (int64_t p = 0; p < committed + kKvPage && poison; ++p) {
        const bool seen = p < committed && p >= committed - (w.window - 1);
        if (!seen) test::cached(state.kv[0], p, w.head_dim).poison(2);
      }
      for (int64_t p = kLength; p < kKvPage && poison; ++p) {
        test::cached(canvas.kv[0], p, w.head_dim).poison(2);
      }
      outputs[poison] = Runner{w}.run_canvas(input, state, canvas, kLength, all_slots(kLength));
    }
    test::expect_same_bits(outputs[1], outputs[0], "NaNs around " + std::to_string(committed));
  }
}

// Keys and values of the other slots are those of the pass before.
TEST(CpuWindowAttention, SomeRowsOfACanvasHaveTheBitsThatTheyHaveAmongAll) {
  test::Random random(41);
  constexpr int64_t kLength = 256;
  for (const int64_t committed : {0, 38, 39, 40, 41, 295, 600}) {
    const WindowedAttentionWeights w = make_weights(kSmall);
    const auto input = random_input(w, kLength, 42);
    SequenceState state = make_state(w, committed, 0, 43);
    CanvasState canvas = make_canvas(w, 44);
    const auto full = Runner{w}.run_canvas(input, state, canvas, kLength, all_slots(kLength));
    for (const float share : {0.01f, 0.2f, 0.5f, 0.9f, 1.0f}) {
      std::vector<int32_t> slots;
      for (int32_t s = 0; s < kLength; ++s) {
        if (random.between(0, 1) <= share) slots.push_back(s);
      }
      const int threads = share < 0.5f ? 1 : 3;
      const auto some = Runner{w, test::best_kernels().attention, threads}.run_canvas(
          rows_of_input(w, input, slots), state, canvas, kLength, slots);
      for (size_t i = 0; i < slots.size(); ++i) {
        test::expect_same_bits(row(some, static_cast<int64_t>(i), output_width(w)),
                               row(full, slots[i], output_width(w)),
                               "slot " + std::to_string(slots[i]) + " of " + std::to_string(slots.size()));
      }
    }
  }
}

// ---- both kinds together

struct MixedPass {
  SequenceState state, other;
  CanvasState canvas, second;
  std::vector<float> mixed;
};

constexpr int64_t kCausal = 70, kOtherCausal = 3, kCanvas = 33, kSecond = 12;

// Causal rows of two sequences, then a canvas behind each of them.
MixedPass run_mixed(const WindowedAttentionWeights& w, const cpu::AttentionKernels& kernels, int threads,
                    bool canvas_only) {
  MixedPass pass{make_state(w, 250, kCausal, 51),
                 make_state(w, 30, kOtherCausal, 52),
                 make_canvas(w, 53),
                 make_canvas(w, 54),
                 {}};
  const auto input = random_input(w, kCausal + kOtherCausal + kCanvas + kSecond, 55);
  const Segment segments[] = {{&pass.state, 0, kCausal}, {&pass.other, kCausal, kOtherCausal}};
  const auto slots = all_slots(kCanvas), second = all_slots(kSecond);
  const int64_t first = kCausal + kOtherCausal;
  const CanvasSegment canvases[] = {
      {&pass.state, &pass.canvas, 250 + kCausal, kCanvas, first, slots},
      {&pass.other, &pass.second, 30 + kOtherCausal, kSecond, first + kCanvas, second}};
  pass.mixed = Runner{w, kernels, threads}.run(input, segments, canvases, canvas_only);
  return pass;
}

TEST(CpuWindowAttention, ACanvasSeesWhatCausalRowsOfTheSamePassAppend) {
  const WindowedAttentionWeights w = make_weights(kSmall);
  const MixedPass pass = run_mixed(w, test::best_kernels().attention, 3, false);
  const auto input = random_input(w, kCausal + kOtherCausal + kCanvas + kSecond, 55);
  const auto part = [&](int64_t first, int64_t rows) {
    const auto from = input.begin() + first * input_width(w);
    return std::vector<float>(from, from + rows * input_width(w));
  };
  SequenceState state = make_state(w, 250, kCausal, 51);
  CanvasState canvas = make_canvas(w, 53);
  const auto causal = Runner{w}.run_cut(part(0, kCausal), state, std::vector<int64_t>{kCausal});
  const auto behind =
      Runner{w}.run_canvas(part(kCausal + kOtherCausal, kCanvas), state, canvas, kCanvas, all_slots(kCanvas));
  const auto of_pass = [&](int64_t first, size_t count) {
    return std::span(pass.mixed).subspan(static_cast<size_t>(first * output_width(w)), count);
  };
  test::expect_same_bits(causal, of_pass(0, causal.size()), "causal rows");
  test::expect_same_bits(behind, of_pass(kCausal + kOtherCausal, behind.size()), "canvas rows");
  expect_same_pages(canvas.kv[0], pass.canvas.kv[0]);
}

TEST(CpuWindowAttention, WithCanvasOnlyCausalRowsAppendAndNothingElse) {
  const WindowedAttentionWeights w = make_weights(kSmall);
  const MixedPass all = run_mixed(w, test::best_kernels().attention, 2, false);
  const MixedPass only = run_mixed(w, test::best_kernels().attention, 2, true);
  expect_same_pages(only.state.kv[0], all.state.kv[0]);
  expect_same_pages(only.other.kv[0], all.other.kv[0]);
  expect_same_pages(only.canvas.kv[0], all.canvas.kv[0]);
  const auto causal = static_cast<size_t>((kCausal + kOtherCausal) * output_width(w));
  for (size_t i = 0; i < causal; ++i) ASSERT_TRUE(std::isnan(only.mixed[i])) << "written: " << i;
  test::expect_same_bits(std::span(only.mixed).subspan(causal), std::span(all.mixed).subspan(causal),
                         "canvas rows");
}

TEST(CpuWindowAttention, BitsAreTheSameForEveryThreadCountAndInstructionSet) {
  for (const Shape& shape : {kSliding, kFull, kSmall, Shape{7, 1, 48, 300, 5, true}}) {
    const WindowedAttentionWeights w = make_weights(shape);
    const auto first = run_mixed(w, test::best_kernels().attention, 1, false);
    for (const int threads : {2, 3, 5}) {
      test::expect_same_bits(run_mixed(w, test::best_kernels().attention, threads, false).mixed, first.mixed,
                             std::to_string(threads) + " threads");
    }
    for (const auto& [name, kernels] : test::kernel_tables()) {
      const MixedPass pass = run_mixed(w, kernels->attention, 2, false);
      test::expect_same_bits(pass.mixed, first.mixed, name);
      expect_same_pages(pass.state.kv[0], first.state.kv[0]);
    }
  }
}

}  // namespace
}  // namespace weir
