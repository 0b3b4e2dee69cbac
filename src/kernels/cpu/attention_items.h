// The pieces that attention is cut into. The cuts depend on positions alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/state.h"

namespace weir::cpu {

// Rows of a tile read a page together. Divides kKvPage.
inline constexpr int64_t kTileRows = 8;

// Rows of one segment whose positions lie in the same aligned run of kTileRows, and the KV head they look at.
struct QueryTile {
  const Segment* segment = nullptr;
  int64_t kv_head = 0;
  int64_t first = 0;  // row within the segment
  int64_t rows = 0;

  bool operator==(const QueryTile&) const = default;
  int64_t batch_row(int64_t r) const { return segment->first_row + first + r; }
  int64_t position(int64_t r) const { return segment->state->position + first + r; }
  int64_t last_page() const { return position(rows - 1) / kKvPage; }
};

// A tile and one page of the positions that it sees.
struct Item {
  QueryTile tile;
  int64_t page = 0;

  bool is_last() const { return page == tile.last_page(); }
  // Positions of the page that row r sees, at least 1.
  int64_t visible(int64_t r) const { return std::min(tile.position(r) + 1 - page * kKvPage, kKvPage); }
};

// All items of a batch: segments, KV heads, tiles and pages, the last innermost.
class ItemSequence {
 public:
  ItemSequence(const Batch& batch, int64_t kv_heads)
      : segment_(batch.segments.data()), end_(segment_ + batch.segments.size()), kv_heads_(kv_heads) {
    enter_segment();
  }

  bool done() const { return segment_ == end_; }

  // Only valid when not done.
  Item next() {
    const Item item = item_;
    if (!item.is_last()) {
      ++item_.page;
    } else if (item.tile.first + item.tile.rows < segment_->rows) {
      enter_tile(item.tile.kv_head, item.tile.first + item.tile.rows);
    } else if (item.tile.kv_head + 1 < kv_heads_) {
      enter_tile(item.tile.kv_head + 1, 0);
    } else {
      ++segment_;
      enter_segment();
    }
    return item;
  }

 private:
  void enter_segment() {
    while (segment_ != end_ && segment_->rows == 0) ++segment_;
    if (segment_ != end_) enter_tile(0, 0);
  }

  void enter_tile(int64_t kv_head, int64_t first) {
    const int64_t to_boundary = kTileRows - (segment_->state->position + first) % kTileRows;
    item_ = {{segment_, kv_head, first, std::min(to_boundary, segment_->rows - first)}, 0};
  }

  const Segment* segment_;
  const Segment* end_;
  int64_t kv_heads_;
  Item item_;
};

}  // namespace weir::cpu
