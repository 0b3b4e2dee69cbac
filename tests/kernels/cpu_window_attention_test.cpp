// The CPU's attention of block diffusion against float64 computed from its formula, and against itself in
// other cuts, companies, thread counts and instruction sets.
#include "cpu_window_support.h"
#include "kernels/diffusion_steps.h"
#include "kernels/reference/reference_steps.h"

namespace weir::test {
namespace {

// ---- float64

Head prepared(const float* x, const Vector& gain, int64_t position, const WindowedAttentionWeights& w) {
  const Turning turning{w.rope_theta, w.head_dim, w.rotated_pairs, w.head_dim / 2};
  return norm_rotate(x, &gain, w.head_dim, w.norm_epsilon, turning, position);
}

void expect_cached(const float* in, int64_t position, const WindowedAttentionWeights& w,
                   const CachedPosition& stored) {
  const float* keys = in + w.heads * w.head_dim;
  const float* values = w.values_are_keys ? keys : keys + w.kv_heads * w.head_dim;
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    SCOPED_TRACE(testing::Message() << "cached position " << position << ", head " << h);
    expect_rounded(prepared(keys + h * w.head_dim, w.k_norm, position, w),
                   [&](int64_t d) { return stored.key(h, d); });
    expect_rounded(norm_rotate(values + h * w.head_dim, nullptr, w.head_dim, w.norm_epsilon, {}, position),
                   [&](int64_t d) { return stored.value(h, d); });
  }
}

void expect_row(const float* mixed, const float* in, int64_t position, const WindowedAttentionWeights& w,
                const std::vector<CachedPosition>& seen) {
  for (int64_t h = 0; h < w.heads && !testing::Test::HasFatalFailure(); ++h) {
    SCOPED_TRACE(testing::Message() << "position " << position << ", head " << h);
    const int64_t at = h * w.head_dim;
    expect_attended(mixed + at, prepared(in + at, w.q_norm, position, w), 1, nullptr, seen,
                    h / (w.heads / w.kv_heads));
  }
}

std::vector<CachedPosition> positions(const KvCache& cache, int64_t first, int64_t end, int64_t dim) {
  std::vector<CachedPosition> seen;
  for (int64_t p = first; p < end; ++p) seen.push_back(cached(cache, p, dim));
  return seen;
}

std::vector<CachedPosition> seen_by_causal_row(const WindowedAttentionWeights& w, const SequenceState& state,
                                               int64_t position) {
  const int64_t first = w.window == 0 ? 0 : std::max<int64_t>(0, position - w.window + 1);
  return positions(state.kv[0], first, position + 1, w.head_dim);
}

std::vector<CachedPosition> seen_by_canvas_row(const WindowedAttentionWeights& w, const SequenceState& state,
                                               const CanvasState& canvas, int64_t committed, int64_t length) {
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
      expect_cached(in, start + r, w, cached(state.kv[0], start + r, w.head_dim));
      expect_row(mixed.data() + r * output_width(w), in, start + r, w,
                 seen_by_causal_row(w, state, start + r));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuWindowAttention, CausalRowsHaveTheSameBitsHoweverTheirSequenceIsCut) {
  constexpr int64_t kRows = 620;
  Random random(8);
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
        const auto cut = Runner{w, best_kernels().attention, threads}.run_cut(input, state, cuts);
        expect_same_bits(cut, whole,
                         "window " + std::to_string(window) + ", first call of " +
                             std::to_string(cuts.front()) + " rows, " + std::to_string(threads) + " threads");
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
        if (p <= position - w.window || p > position) cached(state.kv[0], p, w.head_dim).poison(2);
      }
      const Segment segment{&state, 0, 1};
      outputs[poison] = Runner{w}.run(input, {&segment, 1}, {});
    }
    expect_same_bits(outputs[1], outputs[0], "NaNs around position " + std::to_string(position));
  }
}

// ---- canvas rows

TEST(CpuWindowAttention, CanvasRowsEqualFloat64WithinTheErrorOfTheirRoundings) {
  const std::pair<Shape, int64_t> cases[] = {{kSliding, 1279}, {kFull, 700},  {kSliding, 100}, {kSmall, 0},
                                             {kSmall, 38},     {kSmall, 39},  {kSmall, 40},    {kSmall, 41},
                                             {kSmall, 295},    {kSmall, 296}, {kSmall, 1000}};
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
      expect_cached(in, committed + r, w, cached(canvas.kv[0], r, w.head_dim));
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
        if (!seen) cached(state.kv[0], p, w.head_dim).poison(2);
      }
      for (int64_t p = kLength; p < kKvPage && poison; ++p) {
        cached(canvas.kv[0], p, w.head_dim).poison(2);
      }
      outputs[poison] = Runner{w}.run_canvas(input, state, canvas, kLength, all_slots(kLength));
    }
    expect_same_bits(outputs[1], outputs[0], "NaNs around " + std::to_string(committed));
  }
}

// Keys and values of the other slots are those of the pass before.
TEST(CpuWindowAttention, SomeRowsOfACanvasHaveTheBitsThatTheyHaveAmongAll) {
  Random random(41);
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
      const auto some = Runner{w, best_kernels().attention, threads}.run_canvas(
          rows_of_input(w, input, slots), state, canvas, kLength, slots);
      for (size_t i = 0; i < slots.size(); ++i) {
        expect_same_bits(row(some, static_cast<int64_t>(i), output_width(w)),
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
  const MixedPass pass = run_mixed(w, best_kernels().attention, 3, false);
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
  expect_same_bits(causal, of_pass(0, causal.size()), "causal rows");
  expect_same_bits(behind, of_pass(kCausal + kOtherCausal, behind.size()), "canvas rows");
  expect_same_pages(canvas.kv[0], pass.canvas.kv[0]);
}

TEST(CpuWindowAttention, WithCanvasOnlyCausalRowsAppendAndNothingElse) {
  const WindowedAttentionWeights w = make_weights(kSmall);
  const MixedPass all = run_mixed(w, best_kernels().attention, 2, false);
  const MixedPass only = run_mixed(w, best_kernels().attention, 2, true);
  expect_same_pages(only.state.kv[0], all.state.kv[0]);
  expect_same_pages(only.other.kv[0], all.other.kv[0]);
  expect_same_pages(only.canvas.kv[0], all.canvas.kv[0]);
  const auto causal = static_cast<size_t>((kCausal + kOtherCausal) * output_width(w));
  for (size_t i = 0; i < causal; ++i) ASSERT_TRUE(std::isnan(only.mixed[i])) << "written: " << i;
  expect_same_bits(std::span(only.mixed).subspan(causal), std::span(all.mixed).subspan(causal),
                   "canvas rows");
}

// The same rows through the reference, whose pages are float32; nothing has been committed before.
std::vector<float> reference_attended(const WindowedAttentionWeights& w, std::vector<float> input,
                                      const CanvasBatch& batch) {
  const auto steps = make_reference_steps();
  const int64_t rows = static_cast<int64_t>(input.size()) / input_width(w);
  std::vector<float> mixed = poisoned(rows * output_width(w));
  steps->diffusion()->attend(rows_of(mixed, output_width(w)), rows_of(input, input_width(w)), w, batch, 0,
                             false);
  return mixed;
}

// Up to the rounding of keys and values to bfloat16, 2^-9 of each at most; a position too many or too few
// would change a row by one part in 40.
TEST(CpuWindowAttention, AgreesWithTheReference) {
  for (const Shape& shape : {kSmall, Shape{4, 2, 64, 0, 5, true}, Shape{8, 1, 16, 33, 8, false}}) {
    const WindowedAttentionWeights w = make_weights(shape);
    constexpr int64_t kRows = 300;
    const auto input = random_input(w, kRows + kCanvas, 61);
    const auto slots = all_slots(kCanvas);
    const auto run = [&](bool reference) {
      const auto page_bytes = reference ? make_reference_steps()->diffusion()->kv_page_bytes(w)
                                        : cpu::page_bytes(w.kv_heads, w.head_dim);
      SequenceState state;
      state.kv.push_back(random_pages(kRows, page_bytes, 62));
      CanvasState canvas;
      canvas.kv.push_back(random_pages(1, page_bytes, 63));
      const Segment segment{&state, 0, kRows};
      const CanvasSegment behind{&state, &canvas, kRows, kCanvas, kRows, slots};
      if (!reference) return Runner{w}.run(input, {&segment, 1}, {&behind, 1});
      CanvasBatch batch;
      batch.segments = {&segment, 1};
      batch.canvases = {&behind, 1};
      return reference_attended(w, input, batch);
    };
    const auto got = run(false), want = run(true);
    for (int64_t r = 0; r < kRows + kCanvas; ++r) {
      double difference = 0, size = 0;
      for (int64_t i = r * output_width(w); i < (r + 1) * output_width(w); ++i) {
        const double g = got[static_cast<size_t>(i)], v = want[static_cast<size_t>(i)];
        difference += (g - v) * (g - v);
        size += v * v;
      }
      ASSERT_LT(std::sqrt(difference / size), 0.01) << "row " << r << ", window " << w.window;
    }
  }
}

TEST(CpuWindowAttention, BitsAreTheSameForEveryThreadCountAndInstructionSet) {
  for (const Shape& shape : {kSliding, kFull, kSmall, Shape{7, 1, 48, 300, 5, true}}) {
    const WindowedAttentionWeights w = make_weights(shape);
    const auto first = run_mixed(w, best_kernels().attention, 1, false);
    for (const int threads : {2, 3, 5}) {
      expect_same_bits(run_mixed(w, best_kernels().attention, threads, false).mixed, first.mixed,
                       std::to_string(threads) + " threads");
    }
    for (const auto& [name, kernels] : kernel_tables()) {
      const MixedPass pass = run_mixed(w, kernels->attention, 2, false);
      expect_same_bits(pass.mixed, first.mixed, name);
      expect_same_pages(pass.state.kv[0], first.state.kv[0]);
    }
  }
}

}  // namespace
}  // namespace weir::test
