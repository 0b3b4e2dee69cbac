#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_items.h"
#include "kernels/cpu/kv_page.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/scratch.h"

namespace weir::cpu {
namespace {

static_assert(kKvPage % kTileRows == 0);

// Items that a thread computes between two merges: enough that waiting for the slowest thread is rare.
constexpr int64_t kItemsPerThread = 4;

// One call of attend: append, then rounds of items that all threads compute and then merge in item order.
class Attention {
 public:
  Attention(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const AttentionKernels& kernels, int threads, void* scratch)
      : mixed_(mixed),
        projected_(projected),
        w_(w),
        batch_(batch),
        index_(static_cast<size_t>(index)),
        kernels_(kernels),
        threads_(threads),
        group_(w.heads / w.kv_heads),
        dim_(w.head_dim),
        half_(w.rotary_dim / 2),
        tile_queries_(kTileRows * group_),
        carver_(scratch),
        rotary_(carver_.take<float>(half_), w.rope_theta, w.rotary_dim, half_, half_),
        items_left_(batch, w.kv_heads) {
    const int64_t capacity = kItemsPerThread * threads;
    rotations_ = carver_.take<float>(threads * 2 * half_);
    heads_ = carver_.take<float>(threads * dim_);
    queries_ = carver_.take<float>(threads * tile_queries_ * dim_);
    scores_ = carver_.take<float>(threads * tile_queries_ * kKvPage);
    partials_ = {carver_.take<float>((capacity + 1) * tile_queries_),
                 carver_.take<float>((capacity + 1) * tile_queries_),
                 carver_.take<float>((capacity + 1) * tile_queries_ * dim_)};
    items_ = carver_.take<Item>(capacity);
    prepared_ = carver_.take<QueryTile>(threads);
    std::fill_n(prepared_, threads, QueryTile{});
  }

  // Keys and values of this thread's rows go to their pages.
  void append(int thread) const {
    const Range mine = part_of(projected_.rows, thread, threads_);
    for (const Segment& segment : batch_.segments) {
      const int64_t begin = std::max(mine.begin, segment.first_row);
      const int64_t end = std::min(mine.end, segment.first_row + segment.rows);
      for (int64_t row = begin; row < end; ++row) append_row(segment, row, thread);
    }
  }

  // Takes the items of the next round; false when there are none.
  bool next_round() {
    const int64_t capacity = kItemsPerThread * threads_;
    for (item_count_ = 0; item_count_ < capacity && !items_left_.done(); ++item_count_) {
      items_[item_count_] = items_left_.next();
    }
    return item_count_ > 0;
  }

  // This thread's part of the round's items, into their slots.
  void compute(int thread) const {
    const Range mine = part_of(item_count_, thread, threads_);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Item& item = items_[i];
      if (!(item.tile == prepared_[thread])) prepare_queries(item.tile, thread);
      Visible visible[kTileRows];
      for (int64_t r = 0; r < item.tile.rows; ++r) visible[r] = {0, item.visible(r)};
      kernels_.attend_page(slot(i, 0), queries(thread), page_of(item), visible, item.tile.rows, group_, dim_,
                           scores_ + thread * tile_queries_ * kKvPage);
    }
  }

  // This thread's part of a tile's queries, for all items of the round.
  void merge(int thread) const {
    for (int64_t i = 0; i < item_count_; ++i) {
      const Item& item = items_[i];
      for (int64_t query = thread; query < item.tile.rows * group_; query += threads_) {
        const Partial total = slot(kItemsPerThread * threads_, query);
        if (item.page == 0) {
          copy_partial(total, slot(i, query));
        } else {
          kernels_.merge(total, slot(i, query), dim_);
        }
        if (item.is_last()) finish(item.tile, query, total);
      }
    }
  }

 private:
  float* queries(int thread) const { return queries_ + thread * tile_queries_ * dim_; }

  Partial slot(int64_t i, int64_t query) const {
    return partial_at(partials_, i * tile_queries_ + query, dim_);
  }

  void copy_partial(const Partial& to, const Partial& from) const {
    *to.max = *from.max;
    *to.sum = *from.sum;
    std::copy_n(from.values, dim_, to.values);
  }

  HeadPage page_of(const Item& item) const {
    const KvCache& cache = item.tile.segment->state->kv[index_];
    return head_page(cache.pages[static_cast<size_t>(item.page)], item.tile.kv_head, dim_);
  }

  Rotation rotation_at(int64_t position, int thread) const {
    return rotary_.at(position, rotations_ + thread * 2 * half_);
  }

  void append_row(const Segment& segment, int64_t row, int thread) const {
    const int64_t position = segment.state->position + row - segment.first_row;
    const float* keys = projected_.row(row) + 2 * w_.heads * dim_;
    const float* values = keys + w_.kv_heads * dim_;
    const Buffer& page = segment.state->kv[index_].pages[static_cast<size_t>(position / kKvPage)];
    const Rotation rotation = rotation_at(position, thread);
    float* key = heads_ + thread * dim_;
    for (int64_t h = 0; h < w_.kv_heads; ++h) {
      kernels_.norm_rotate(key, keys + h * dim_, w_.k_norm.floats(), w_.norm_epsilon, rotation, 1.0f, dim_);
      store_position(page, h, position % kKvPage, key, values + h * dim_, dim_);
    }
  }

  // Normed, rotated and scaled queries of a tile: [rows, group, dim].
  void prepare_queries(const QueryTile& tile, int thread) const {
    prepared_[thread] = tile;
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim_)));
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Rotation rotation = rotation_at(tile.position(r), thread);
      const float* in = projected_.row(tile.batch_row(r)) + 2 * tile.kv_head * group_ * dim_;
      float* out = queries(thread) + r * group_ * dim_;
      for (int64_t m = 0; m < group_; ++m) {
        kernels_.norm_rotate(out + m * dim_, in + 2 * m * dim_, w_.q_norm.floats(), w_.norm_epsilon, rotation,
                             scale, dim_);
      }
    }
  }

  void finish(const QueryTile& tile, int64_t query, const Partial& total) const {
    const int64_t row = tile.batch_row(query / group_);
    const int64_t head = tile.kv_head * group_ + query % group_;
    const float* gate = projected_.row(row) + (2 * head + 1) * dim_;
    kernels_.finish(mixed_.row(row) + head * dim_, total, gate, dim_);
  }

  Rows mixed_, projected_;
  const AttentionWeights& w_;
  const Batch& batch_;
  size_t index_;
  const AttentionKernels& kernels_;
  int threads_;
  int64_t group_, dim_, half_;
  int64_t tile_queries_;

  Carver carver_;
  Rotary rotary_;
  float* rotations_;  // [threads, 2, half]
  float* heads_;      // [threads, dim], a key before it is rounded
  float* queries_;    // [threads, kTileRows, group, dim]
  float* scores_;     // [threads, kTileRows, group, kKvPage]
  Partial partials_;  // of [items + 1, kTileRows, group] queries; the last are the merged ones
  Item* items_;
  QueryTile* prepared_;  // [threads], whose queries `queries_` holds

  ItemSequence items_left_;
  int64_t item_count_ = 0;
};

}  // namespace

size_t kv_page_bytes(const AttentionWeights& w) {
  return page_bytes(w.kv_heads, w.head_dim);
}

size_t attention_scratch_bytes(const Limits& limits, int threads) {
  const int64_t heads_width = limits.widest / 2;  // at least heads * head_dim
  const int64_t dim = limits.widest / 4;          // at least head_dim, and so on
  const int64_t group = heads_width / kPageLanes;
  const int64_t items = kItemsPerThread * threads;
  const int64_t floats = dim + threads * (dim + dim + kTileRows * (heads_width + group * kKvPage)) +
                         (items + 1) * kTileRows * (2 * group + heads_width);
  constexpr int kArrays = 8;
  return carved_bytes(floats, sizeof(float)) + kArrays * kCacheLine + carved_bytes(items, sizeof(Item)) +
         carved_bytes(threads, sizeof(QueryTile));
}

void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const AttentionKernels& kernels, ThreadPool& pool, void* scratch) {
  Attention attention(mixed, projected, w, batch, index, kernels, pool.threads(), scratch);
  pool.run([&](int thread) { attention.append(thread); });
  while (attention.next_round()) {
    pool.run([&](int thread) { attention.compute(thread); });
    pool.run([&](int thread) { attention.merge(thread); });
  }
}

}  // namespace weir::cpu
