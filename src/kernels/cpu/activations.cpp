#include "kernels/cpu/activations.h"

#include <cstring>

#include "base/check.h"

namespace weir::cpu {
namespace {

constexpr int kGroupSizes = 3;  // 32, 64, 128

bool is_int8(int kind) {
  return kind < kGroupSizes;
}

// Columns that share a scale or a sum; 0 for plain floats.
int64_t kind_group(int kind) {
  return kind == kPlainKind ? 0 : int64_t{32} << (kind % kGroupSizes);
}

// to[c * count + i] = from[c] for runs of four bytes.
void spread_words(void* to, const void* from, int64_t words, int64_t count, int64_t i) {
  auto* out = static_cast<std::byte*>(to) + 4 * i;
  const auto* in = static_cast<const std::byte*>(from);
  for (int64_t c = 0; c < words; ++c) std::memcpy(out + 4 * c * count, in + 4 * c, 4);
}

}  // namespace

int activation_kind(const PackedMatrix& w) {
  if (w.group == 0) return kPlainKind;
  const int size = w.group == 32 ? 0 : w.group == 64 ? 1 : 2;
  return w.int8_activations ? size : kGroupSizes + size;
}

void Activations::carve(Carver& scratch, std::array<Arrays, kKinds>& arrays, int64_t elements) {
  for (int kind = 0; kind < kPlainKind; ++kind) {
    Arrays& a = arrays[static_cast<size_t>(kind)];
    const int64_t groups = elements / kind_group(kind) + 1;
    if (is_int8(kind)) {
      a.q = scratch.take<int8_t>(elements);
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
      total += is_int8(kind) ? carved_bytes(elements, 1) + 2 * groups : groups;
    }
  }
  return total;
}

void Activations::begin(const float* x, int64_t cols, unsigned kinds) {
  x_ = x;
  cols_ = cols;
  kinds_ = kinds;
}

void Activations::round_row(const RowKernels& kernels, int64_t row) const {
  const float* x = x_ + row * cols_;
  for (int kind = 0; kind < kPlainKind; ++kind) {
    if ((kinds_ >> kind & 1u) == 0) continue;
    const Arrays& a = rows_[static_cast<size_t>(kind)];
    const int64_t group = kind_group(kind);
    const int64_t first_group = row * (cols_ / group);
    if (is_int8(kind)) {
      kernels.quantize(a.q + row * cols_, a.scale + first_group, a.sum + first_group, x, group, cols_);
    } else {
      kernels.group_sums(a.sum + first_group, x, group, cols_);
    }
  }
}

void Activations::interleave(int64_t first, const int32_t* rows, int64_t count) const {
  bool floats = false;
  for (int kind = 0; kind < kKinds; ++kind) {
    if ((kinds_ >> kind & 1u) == 0) continue;
    floats = floats || !is_int8(kind);
    if (kind == kPlainKind) continue;
    const Arrays& from = rows_[static_cast<size_t>(kind)];
    const Arrays& to = tiles_[static_cast<size_t>(kind)];
    const int64_t groups = cols_ / kind_group(kind);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = rows[i];
      if (is_int8(kind)) {
        spread_words(to.q + first * cols_, from.q + row * cols_, cols_ / 4, count, i);
        spread_words(to.scale + first * groups, from.scale + row * groups, groups, count, i);
      }
      spread_words(to.sum + first * groups, from.sum + row * groups, groups, count, i);
    }
  }
  for (int64_t i = 0; floats && i < count; ++i) {
    spread_words(tile_x_ + first * cols_, x_ + rows[i] * cols_, cols_, count, i);
  }
}

Tile Activations::tile(const PackedMatrix& w, int64_t first, int64_t count) const {
  const int kind = activation_kind(w);
  const Arrays& a = tiles_[static_cast<size_t>(kind)];
  Tile tile;
  tile.count = count;
  tile.cols = cols_;
  tile.group = w.group;
  tile.wide_scales = w.wide_scales;
  const int64_t groups = w.group == 0 ? 0 : cols_ / w.group;
  if (is_int8(kind)) {
    tile.q = a.q + first * cols_;
    tile.scale = a.scale + first * groups;
  } else {
    tile.x = tile_x_ + first * cols_;
  }
  if (groups > 0) tile.sum = a.sum + first * groups;
  return tile;
}

}  // namespace weir::cpu
