// Rows of activations on their way into a product: rounded row by row, then interleaved into tiles.
//
// A list of rows that meet the same weights is cut into tiles of nearly equal size, at most max_tile rows
// of the kernels each (linear_kernels.h). The lists of one product lie one after the other; the place of a
// row in them is its position.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/scratch.h"

namespace weir::cpu {

// What a product reads: int8 for groups of 32, 64 or 128; floats with sums over such groups; plain floats. A
// set of kinds is a mask of 1 << kind.
inline constexpr int kKinds = 7;
inline constexpr int kPlainKind = 6;

int activation_kind(const PackedMatrix& w);
inline unsigned kind_mask(const PackedMatrix& w) {
  return 1u << activation_kind(w);
}

// Tile number `tile` of a list of `count` rows holds its rows [begin, end).
inline int64_t tile_count(int64_t count, int64_t max_tile) {
  return (count + max_tile - 1) / max_tile;
}
inline Range tile_rows(int64_t count, int64_t tile, int64_t tiles) {
  return {count * tile / tiles, count * (tile + 1) / tiles};
}

class Activations {
 public:
  // Scratch for products with at most `row_elements` activations in all rows, and `tile_elements` in all
  // positions.
  static size_t scratch_bytes(int64_t row_elements, int64_t tile_elements);
  void place(Carver& scratch, int64_t row_elements, int64_t tile_elements);

  // A new product: x [rows, cols], of which every row goes through round_row, then every list through
  // interleave, before tile() is asked for. The kernels outlive it.
  void begin(const CpuKernels& kernels, const float* x, int64_t cols, unsigned kinds);
  void round_row(int64_t row) const;
  // Part number `part` of `parts` of filling positions [first, first + count), one list, with rows[0, count).
  void interleave(int64_t first, const int32_t* rows, int64_t count, int64_t part = 0,
                  int64_t parts = 1) const;

  // The tile at these positions as matrix `w` reads it.
  Tile tile(const PackedMatrix& w, int64_t first, int64_t count) const;

 private:
  struct Arrays {
    int8_t* q = nullptr;
    float* scale = nullptr;
    float* sum = nullptr;
  };
  void interleave_int8(int kind, int64_t first, const int32_t* rows, int64_t count) const;
  void interleave_floats(int64_t first, const int32_t* rows, int64_t count) const;
  static void carve(Carver& scratch, std::array<Arrays, kPlainKind>& arrays, int64_t elements);

  std::array<Arrays, kPlainKind> rows_{};   // [row, ...]
  std::array<Arrays, kPlainKind> tiles_{};  // as Tile says
  const CpuKernels* kernels_ = nullptr;
  const float* x_ = nullptr;  // the caller's
  float* tile_x_ = nullptr;
  int64_t cols_ = 0;
  unsigned kinds_ = 0;
};

}  // namespace weir::cpu
