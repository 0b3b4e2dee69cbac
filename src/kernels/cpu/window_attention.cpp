#include "kernels/cpu/window_attention.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/kv_page.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/shares.h"
#include "kernels/cpu/window_tiles.h"

namespace weir::cpu {
namespace {

// Queries that read a page together: enough that the page's expansion to float32 and its way from memory are
// shared, few enough for their scores and sums to stay in the second-level cache.
constexpr int64_t kTileQueries = 96;

// Tiles for each thread, where there are rows enough, so that no thread waits long for another.
constexpr int64_t kTilesPerThread = 4;

class WindowAttention {
 public:
  WindowAttention(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
                  int64_t index, bool canvas_only, const AttentionKernels& kernels, int threads,
                  void* scratch)
      : mixed_(mixed),
        projected_(projected),
        w_(w),
        batch_(batch),
        index_(static_cast<size_t>(index)),
        canvas_only_(canvas_only),
        kernels_(kernels),
        threads_(threads),
        group_(w.heads / w.kv_heads),
        dim_(w.head_dim),
        tile_rows_(choose_tile_rows()),
        tile_queries_(tile_rows_ * group_),
        carver_(scratch),
        rotary_(carver_.take<float>(w.rotated_pairs), w.rope_theta, dim_, w.rotated_pairs, dim_ / 2) {
    queries_ = carver_.take<float>(projected.rows * w.heads * dim_);
    turns_ = carver_.take<float>(threads * 2 * w.rotated_pairs);
    keys_ = carver_.take<float>(threads * dim_);
    values_ = carver_.take<float>(threads * dim_);
    scores_ = carver_.take<float>(threads * tile_queries_ * kKvPage);
    for (Partial* p : {&totals_, &nexts_}) {
      p->max = carver_.take<float>(threads * tile_queries_);
      p->sum = carver_.take<float>(threads * tile_queries_);
      p->values = carver_.take<float>(threads * tile_queries_ * dim_);
    }
    visible_ = carver_.take<Visible>(threads * tile_rows_);
  }

  // Of this thread's rows: keys and values to their pages, and queries.
  void prepare(int thread) const {
    const Range mine = part_of(projected_.rows, thread, threads_);
    const auto for_mine = [&](int64_t first_row, int64_t rows, const auto& f) {
      const int64_t begin = std::max(mine.begin, first_row), end = std::min(mine.end, first_row + rows);
      for (int64_t row = begin; row < end; ++row) f(row, row - first_row);
    };
    for (const Segment& s : batch_.segments) {
      for_mine(s.first_row, s.rows, [&](int64_t row, int64_t r) {
        const int64_t position = s.state->position + r;
        const Buffer& page = s.state->kv[index_].pages[static_cast<size_t>(position / kKvPage)];
        prepare_row(row, position, page, position % kKvPage, !canvas_only_, thread);
      });
    }
    for (const CanvasSegment& s : batch_.canvases) {
      const Buffer& page = s.canvas->kv[index_].pages.front();
      for_mine(s.first_row, static_cast<int64_t>(s.slots.size()), [&](int64_t row, int64_t r) {
        const int64_t slot = s.slots[static_cast<size_t>(r)];
        prepare_row(row, s.committed + slot, page, slot, true, thread);
      });
    }
  }

  // This thread's tiles, from their first page to their results.
  void attend(int thread) const {
    int64_t total = 0;
    for_tiles([&](const WindowTile& tile) { total += tile.cost(w_.window); });
    Shares shares(part_of(total, thread, threads_));
    for_tiles([&](const WindowTile& tile) {
      const Range mine = shares.next(1, tile.cost(w_.window));
      if (mine.begin < mine.end) attend_tile(tile, thread);
    });
  }

 private:
  template <class F>
  void for_tiles(const F& f) const {
    for_window_tiles(batch_, canvas_only_, w_.kv_heads, tile_rows_, f);
  }

  int64_t choose_tile_rows() const {
    const int64_t rows = projected_.rows - (canvas_only_ ? batch_.causal_rows() : 0);
    const int64_t shared = rows * w_.kv_heads / (kTilesPerThread * threads_);
    return std::clamp<int64_t>(shared, 1, std::max<int64_t>(1, kTileQueries / group_));
  }

  // [kv_heads, rows, group, dim], so that the queries of a tile are neighbours.
  float* queries(int64_t kv_head, int64_t row) const {
    return queries_ + (kv_head * projected_.rows + row) * group_ * dim_;
  }

  void prepare_row(int64_t row, int64_t position, const Buffer& page, int64_t slot, bool attends,
                   int thread) const {
    const Rotation rotation = rotary_.at(position, turns_ + thread * 2 * w_.rotated_pairs);
    const float* in = projected_.row(row);
    for (int64_t h = 0; h < w_.heads && attends; ++h) {
      float* query = queries(h / group_, row) + h % group_ * dim_;
      kernels_.norm_rotate(query, in + h * dim_, w_.q_norm.floats(), w_.norm_epsilon, rotation, 1.0f, dim_);
    }
    const float* keys = in + w_.heads * dim_;
    const float* values = w_.values_are_keys ? keys : keys + w_.kv_heads * dim_;
    float* key = keys_ + thread * dim_;
    float* value = values_ + thread * dim_;
    for (int64_t h = 0; h < w_.kv_heads; ++h) {
      kernels_.norm_rotate(key, keys + h * dim_, w_.k_norm.floats(), w_.norm_epsilon, rotation, 1.0f, dim_);
      kernels_.norm_rotate(value, values + h * dim_, nullptr, w_.norm_epsilon, {}, 1.0f, dim_);
      store_position(page, h, slot, key, value, dim_);
    }
  }

  void attend_tile(const WindowTile& tile, int thread) const {
    const Partial total = partial_at(totals_, thread * tile_queries_, dim_);
    const int64_t queries = tile.rows * group_;
    std::fill_n(total.max, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(total.sum, queries, 0.0f);
    std::fill_n(total.values, queries * dim_, 0.0f);
    const Visible span = tile.span(w_.window);
    const std::vector<Buffer>& pages = tile.run.state->kv[index_].pages;
    for (int64_t p = span.begin / kKvPage; p * kKvPage < span.end; ++p) {
      add_committed(tile, p, pages[static_cast<size_t>(p)], total, thread);
    }
    if (tile.run.canvas != nullptr) {
      std::fill_n(visible_ + thread * tile_rows_, tile.rows, Visible{0, tile.run.canvas->length});
      add_page(tile, 0, tile.rows, tile.run.canvas->canvas->kv[index_].pages.front(), total, thread);
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* out = mixed_.row(tile.batch_row(r)) + tile.kv_head * group_ * dim_;
      for (int64_t m = 0; m < group_; ++m) {
        kernels_.finish(out + m * dim_, partial_at(total, r * group_ + m, dim_), nullptr, dim_);
      }
    }
  }

  // Page `p` of the sequence, for those rows of the tile that see any of it; they are neighbours.
  void add_committed(const WindowTile& tile, int64_t p, const Buffer& page, const Partial& total,
                     int thread) const {
    Visible* visible = visible_ + thread * tile_rows_;
    int64_t first = 0, rows = 0;
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Visible seen = tile.committed(r, w_.window);
      const Visible here{std::max(seen.begin - p * kKvPage, int64_t{0}),
                         std::min(seen.end - p * kKvPage, kKvPage)};
      if (here.begin >= here.end) continue;
      if (rows == 0) first = r;
      visible[rows++] = here;
    }
    if (rows > 0) add_page(tile, first, rows, page, total, thread);
  }

  // Rows [first, first + rows) of the tile see `visible_` of a page: merges that into their totals.
  void add_page(const WindowTile& tile, int64_t first, int64_t rows, const Buffer& page, const Partial& total,
                int thread) const {
    const Partial next = partial_at(nexts_, thread * tile_queries_, dim_);
    kernels_.attend_page(next, queries(tile.kv_head, tile.batch_row(first)),
                         head_page(page, tile.kv_head, dim_), visible_ + thread * tile_rows_, rows, group_,
                         dim_, scores_ + thread * tile_queries_ * kKvPage);
    for (int64_t m = 0; m < rows * group_; ++m) {
      kernels_.merge(partial_at(total, first * group_ + m, dim_), partial_at(next, m, dim_), dim_);
    }
  }

  Rows mixed_, projected_;
  const WindowedAttentionWeights& w_;
  const CanvasBatch& batch_;
  size_t index_;
  bool canvas_only_;
  const AttentionKernels& kernels_;
  int threads_;
  int64_t group_, dim_;
  int64_t tile_rows_;  // of the largest tile
  int64_t tile_queries_;

  Carver carver_;
  Rotary rotary_;
  float* queries_;    // [kv_heads, T, group, dim], normed and rotated
  float* turns_;      // [threads, 2, pairs]
  float* keys_;       // [threads, dim], a key before it is rounded
  float* values_;     // [threads, dim], a value
  float* scores_;     // [threads, tile_queries, kKvPage]
  Partial totals_;    // [threads, tile_queries], of the pages so far
  Partial nexts_;     // [threads, tile_queries], of one page
  Visible* visible_;  // [threads, tile_rows]
};

}  // namespace

size_t window_scratch_bytes(const Limits& limits, int threads) {
  const int64_t dim = limits.widest / 2;             // at least head_dim
  const int64_t group = limits.widest / kPageLanes;  // at least heads / kv_heads
  const int64_t queries = kTileQueries + group;      // of a tile, at least
  const int64_t tile_values = kTileQueries * dim + limits.widest;
  const int64_t floats =
      dim + limits.rows * limits.widest + threads * (3 * dim + queries * (kKvPage + 4) + 2 * tile_values);
  constexpr int kArrays = 12;
  return carved_bytes(floats, sizeof(float)) + kArrays * kCacheLine +
         carved_bytes(threads * kTileQueries, sizeof(Visible));
}

void attend_window(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
                   int64_t index, bool canvas_only, const AttentionKernels& kernels, ThreadPool& pool,
                   void* scratch) {
  const WindowAttention attention(mixed, projected, w, batch, index, canvas_only, kernels, pool.threads(),
                                  scratch);
  pool.run([&](int thread) { attention.prepare(thread); });
  pool.run([&](int thread) { attention.attend(thread); });
}

}  // namespace weir::cpu
