// Layers, sequences and canvases for the tests of the CPU's attention of block diffusion, and how to run it.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cpu_attention_support.h"
#include "kernels/cpu/kv_page.h"
#include "kernels/cpu/window_attention.h"

namespace weir::test {

struct Shape {
  int64_t heads, kv_heads, dim, window, pairs;
  bool values_are_keys;
};

// DiffusionGemma's two kinds of layer, and small ones.
inline constexpr Shape kSliding{16, 8, 256, 1024, 128, false};
inline constexpr Shape kFull{16, 2, 512, 0, 64, true};
inline constexpr Shape kSmall{6, 2, 32, 40, 16, false};

inline WindowedAttentionWeights make_weights(const Shape& shape) {
  Random random(7);
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

inline int64_t input_width(const WindowedAttentionWeights& w) {
  return (w.heads + (w.values_are_keys ? 1 : 2) * w.kv_heads) * w.head_dim;
}
inline int64_t output_width(const WindowedAttentionWeights& w) {
  return w.heads * w.head_dim;
}

inline KvCache random_pages(const WindowedAttentionWeights& w, int64_t positions, uint64_t seed) {
  return random_pages(positions, cpu::page_bytes(w.kv_heads, w.head_dim), seed);
}

inline SequenceState make_state(const WindowedAttentionWeights& w, int64_t position, int64_t rows,
                                uint64_t seed) {
  SequenceState state;
  state.position = position;
  state.kv.push_back(random_pages(w, position + rows, seed));
  return state;
}

inline CanvasState make_canvas(const WindowedAttentionWeights& w, uint64_t seed) {
  CanvasState canvas;
  canvas.kv.push_back(random_pages(w, 1, seed));
  return canvas;
}

inline std::vector<float> random_input(const WindowedAttentionWeights& w, int64_t rows, uint64_t seed) {
  return Random(seed).floats(rows * input_width(w), -2, 2);
}

inline std::vector<float> rows_of_input(const WindowedAttentionWeights& w, const std::vector<float>& input,
                                        std::span<const int32_t> rows) {
  std::vector<float> some;
  for (const int32_t r : rows) {
    const auto from = input.begin() + r * input_width(w);
    some.insert(some.end(), from, from + input_width(w));
  }
  return some;
}

inline std::span<const float> row(const std::vector<float>& values, int64_t r, int64_t width) {
  return std::span(values).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
}

inline std::vector<int32_t> all_slots(int64_t length) {
  std::vector<int32_t> slots(static_cast<size_t>(length));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

struct Runner {
  const WindowedAttentionWeights& w;
  const cpu::AttentionKernels& kernels = best_kernels().attention;
  int threads = 2;

  std::vector<float> run(std::vector<float> projected, std::span<const Segment> segments,
                         std::span<const CanvasSegment> canvases, bool canvas_only = false) const {
    const int64_t rows = static_cast<int64_t>(projected.size()) / input_width(w);
    std::vector<float> mixed = poisoned(rows * output_width(w));
    Limits limits;
    limits.rows = rows;
    limits.widest = input_width(w);
    const GuardedScratch scratch(cpu::window_scratch_bytes(limits, threads));
    ThreadPool pool(threads);
    CanvasBatch batch;
    const std::vector<int32_t> tokens(static_cast<size_t>(rows));
    batch.tokens = tokens;
    batch.segments = segments;
    batch.canvases = canvases;
    cpu::attend_window(rows_of(mixed, output_width(w)), rows_of(projected, input_width(w)), w, batch, 0,
                       canvas_only, kernels, pool, scratch.data());
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

inline void expect_same_pages(const KvCache& a, const KvCache& b) {
  ASSERT_EQ(a.pages.size(), b.pages.size());
  for (size_t p = 0; p < a.pages.size(); ++p) {
    EXPECT_EQ(std::memcmp(a.pages[p].data(), b.pages[p].data(), a.pages[p].bytes()), 0) << "page " << p;
  }
}

}  // namespace weir::test
