// The rows of a pass that attend, cut into tiles, and which positions each of them sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/state.h"

namespace weir::cpu {

// Consecutive rows of a batch that look at the same sequence: a segment, or the rows of a canvas.
struct RowRun {
  const SequenceState* state = nullptr;
  const CanvasSegment* canvas = nullptr;  // null: causal rows
  int64_t first_row = 0;                  // in the batch
  int64_t rows = 0;

  explicit RowRun(const Segment& s) : state(s.state), first_row(s.first_row), rows(s.rows) {}
  explicit RowRun(const CanvasSegment& s)
      : state(s.state), canvas(&s), first_row(s.first_row), rows(static_cast<int64_t>(s.slots.size())) {}

  // Positions of the sequence that row r of the run sees. They only grow with r, at both ends.
  Visible committed(int64_t r, int64_t window) const {
    const int64_t end = canvas != nullptr ? canvas->committed : state->position + r + 1;
    const int64_t longest = window == 0 ? end : canvas != nullptr ? window - 1 : window;
    return {std::max<int64_t>(0, end - longest), end};
  }
  int64_t canvas_positions() const { return canvas != nullptr ? canvas->length : 0; }
};

// Neighbouring rows of a run, and the KV head that they look at.
struct WindowTile {
  const RowRun& run;
  int64_t kv_head = 0;
  int64_t first = 0;  // row within the run
  int64_t rows = 0;

  int64_t batch_row(int64_t r) const { return run.first_row + first + r; }
  Visible committed(int64_t r, int64_t window) const { return run.committed(first + r, window); }

  // All committed positions that any of its rows sees.
  Visible span(int64_t window) const { return {committed(0, window).begin, committed(rows - 1, window).end}; }

  // In proportion to the work, at least 1.
  int64_t cost(int64_t window) const {
    const Visible seen = span(window);
    return rows * (seen.end - seen.begin + run.canvas_positions()) + 1;
  }
};

// f(tile) for all tiles of at most `tile_rows` rows: runs, KV heads, rows, the last innermost.
template <class F>
void for_tiles_of(const RowRun& run, int64_t kv_heads, int64_t tile_rows, const F& f) {
  for (int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
    for (int64_t first = 0; first < run.rows; first += tile_rows) {
      f(WindowTile{run, kv_head, first, std::min(tile_rows, run.rows - first)});
    }
  }
}

template <class F>
void for_window_tiles(const CanvasBatch& batch, bool canvas_only, int64_t kv_heads, int64_t tile_rows,
                      const F& f) {
  if (!canvas_only) {
    for (const Segment& s : batch.segments) for_tiles_of(RowRun(s), kv_heads, tile_rows, f);
  }
  for (const CanvasSegment& s : batch.canvases) for_tiles_of(RowRun(s), kv_heads, tile_rows, f);
}

}  // namespace weir::cpu
