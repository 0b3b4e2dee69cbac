#include "kernels/cpu/activations.h"

#include <cstring>

#include "base/check.h"

namespace weir::cpu {
namespace {

constexpr int kGroupSizes = 3;  // 32, 64, 128

// Bytes behind the last tile that a product may read.
constexpr int64_t kBehind = kLargestTile * kTileCols;

bool is_int8(int kind) {
  return kind < kGroupSizes;
}

// Columns that share a scale or a sum; 0 for plain floats.
int64_t kind_group(int kind) {
  return kind == kPlainKind ? 0 : int64_t{32} << (kind % kGroupSizes);
}

// to[c][i] = from[rows[i]][c] for pieces of `bytes` bytes, `pieces` in a row.
template <int bytes>
void interleave_pieces(void* to, const void* from, const int32_t* rows, int64_t count, int64_t pieces) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  for (int64_t c = 0; c < pieces; ++c) {
    for (int64_t i = 0; i < count; ++i, out += bytes) {
      std::memcpy(out, in + bytes * (rows[i] * pieces + c), bytes);
    }
  }
}

}  // namespace

int activation_kind(const PackedMatrix& w) {
  if (w.group == 0) return kPlainKind;
  const int size = w.group == 32 ? 0 : w.group == 64 ? 1 : 2;
  return w.int8_activations ? size : kGroupSizes + size;
}

void Activations::carve(Carver& scratch, std::array<Arrays, kPlainKind>& arrays, int64_t elements) {
  for (int kind = 0; kind < kPlainKind; ++kind) {
    Arrays& a = arrays[static_cast<size_t>(kind)];
    const int64_t groups = elements / kind_group(kind) + 1;
    if (is_int8(kind)) {
      a.q = scratch.take<int8_t>(elements + kBehind);
      a.scale = scratch.take<float>(groups);
    }
    a.sum = scratch.take<float>(groups);
  }
}

void Activations::place(Carver& scratch, int64_t row_elements, int64_t tile_elements) {
  carve(scratch, rows_, row_elements);
  carve(scratch, tiles_, tile_elements);
  tile_x_ = scratch.take<float>(tile_elements);
}

size_t Activations::scratch_bytes(int64_t row_elements, int64_t tile_elements) {
  size_t total = carved_bytes(tile_elements, sizeof(float));
  for (const int64_t elements : {row_elements, tile_elements}) {
    for (int kind = 0; kind < kPlainKind; ++kind) {
      const size_t groups = carved_bytes(elements / kind_group(kind) + 1, sizeof(float));
      total += is_int8(kind) ? carved_bytes(elements + kBehind, 1) + 2 * groups : groups;
    }
  }
  return total;
}

void Activations::begin(const CpuKernels& kernels, const float* x, int64_t cols, unsigned kinds) {
  kernels_ = &kernels;
  x_ = x;
  cols_ = cols;
  kinds_ = kinds;
}

void Activations::round_row(int64_t row) const {
  const float* x = x_ + row * cols_;
  for (int kind = 0; kind < kPlainKind; ++kind) {
    if ((kinds_ >> kind & 1u) == 0) continue;
    const Arrays& a = rows_[static_cast<size_t>(kind)];
    const int64_t group = kind_group(kind);
    const int64_t first_group = row * (cols_ / group);
    if (is_int8(kind)) {
      kernels_->rows.quantize(a.q + row * cols_, a.scale + first_group, a.sum + first_group, x, group, cols_);
    } else {
      kernels_->rows.group_sums(a.sum + first_group, x, group, cols_);
    }
  }
}

void Activations::interleave(int64_t first, const int32_t* rows, int64_t count, int64_t part,
                             int64_t parts) const {
  const auto for_tiles = [&](int64_t max_tile, const auto& fill) {
    const int64_t tiles = tile_count(count, max_tile);
    for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
      const Range range = tile_rows(count, tile, tiles);
      fill(first + range.begin, rows + range.begin, range.end - range.begin);
    }
  };
  for (int kind = 0; kind < kGroupSizes; ++kind) {
    if ((kinds_ >> kind & 1u) == 0) continue;
    for_tiles(kernels_->int8.max_tile, [&](int64_t at, const int32_t* tile_rows, int64_t n) {
      interleave_int8(kind, at, tile_rows, n);
    });
  }
  if (kinds_ >> kGroupSizes == 0) return;
  for_tiles(kernels_->floats.max_tile,
            [&](int64_t at, const int32_t* tile_rows, int64_t n) { interleave_floats(at, tile_rows, n); });
}

void Activations::interleave_int8(int kind, int64_t first, const int32_t* rows, int64_t count) const {
  const Arrays& from = rows_[static_cast<size_t>(kind)];
  const Arrays& to = tiles_[static_cast<size_t>(kind)];
  const int64_t group = kind_group(kind);
  const int64_t groups = cols_ / group;
  int8_t* q = to.q + first * cols_;
  if (count < kernels_->int8.tiles_from) {
    interleave_pieces<4>(q, from.q, rows, count, cols_ / 4);
  } else if (group < kTileCols) {
    interleave_pieces<32>(q, from.q, rows, count, cols_ / 32);
  } else {
    interleave_pieces<kTileCols>(q, from.q, rows, count, cols_ / kTileCols);
  }
  interleave_pieces<4>(to.scale + first * groups, from.scale, rows, count, groups);
  interleave_pieces<4>(to.sum + first * groups, from.sum, rows, count, groups);
}

void Activations::interleave_floats(int64_t first, const int32_t* rows, int64_t count) const {
  for (int kind = kGroupSizes; kind < kPlainKind; ++kind) {
    if ((kinds_ >> kind & 1u) == 0) continue;
    const int64_t groups = cols_ / kind_group(kind);
    const auto k = static_cast<size_t>(kind);
    interleave_pieces<4>(tiles_[k].sum + first * groups, rows_[k].sum, rows, count, groups);
  }
  interleave_pieces<4>(tile_x_ + first * cols_, x_, rows, count, cols_);
}

Tile Activations::tile(const PackedMatrix& w, int64_t first, int64_t count) const {
  Tile tile;
  tile.count = count;
  tile.cols = cols_;
  tile.group = w.group;
  tile.wide_scales = w.wide_scales;
  if (!w.int8_activations) tile.x = tile_x_ + first * cols_;
  if (w.group == 0) return tile;
  const Arrays& a = tiles_[static_cast<size_t>(activation_kind(w))];
  const int64_t first_group = first * (cols_ / w.group);
  tile.sum = a.sum + first_group;
  if (w.int8_activations) {
    tile.q = a.q + first * cols_;
    tile.scale = a.scale + first_group;
  }
  return tile;
}

}  // namespace weir::cpu
