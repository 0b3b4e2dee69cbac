// Products of packed weights with rows of activations. One source, compiled once for each instruction set;
// all give the same bits.
//
// Packed weights. 16 consecutive rows of a matrix make a block, and lane = row in every vector. A block is a
// run of lines that is read from front to back, once:
//   kNibbles  for each group of G columns: G / 8 lines of 64 bytes, line l holding columns k = 8 l ... 8 l +
//   7:
//             byte [4 row + j] has q[row][k + j] in its low and q[row][k + 4 + j] in its high nibble; then 16
//             scales and 16 biases. With G = 64 and bfloat16 scales 576 bytes, 4.5 bits a weight.
//   kBytes    the same with G / 4 lines: byte [4 row + j] is q[row][k + j], k = 4 l.
//   kBf16, kF32  for each column 16 values.
//
// Bounds. One row of activations (T = 1) costs 16 multiply-adds of 64 byte pairs for 576 bytes, so memory is
// the bound: a step over B bytes takes B / bandwidth. With many rows a tile of N takes, for those 576 bytes,
// 16 N of them, 24 operations to separate the nibbles and 4 N to scale the group: 16 N / (20 N + 24) of the
// rate of the byte products, 73 % at N = 12.
#pragma once

#include <cstdint>

namespace weir::cpu {

inline constexpr int64_t kBlockRows = 16;
inline constexpr int64_t kLargestTile = 16;  // rows of activations in a tile, of any instruction set

enum class Container : uint8_t { kNibbles, kBytes, kBf16, kF32 };

// Columns of a row that lie together where products go to matrix tiles.
inline constexpr int64_t kTileCols = 64;

// A few rows of activations, laid out so that a product reads one stream. `count` is at least 1 and at most
// max_tile. From Int8Kernels::tiles_from rows on, q is [cols / k][count][k] with k = min(group, kTileCols),
// and products may read (without using it) what lies behind as if the last k columns had kLargestTile rows.
struct Tile {
  int64_t count = 0;
  int64_t cols = 0;
  int64_t group = 0;             // columns that share a scale; 0 for plain weights
  bool wide_scales = false;      // scales and biases are float32, not bfloat16
  const int8_t* q = nullptr;     // [cols / 4][count][4], int8 products
  const float* x = nullptr;      // [cols][count], float products
  const float* scale = nullptr;  // [cols / group][count], int8 products
  const float* sum = nullptr;    // [cols / group][count]: sum of the group's activations as they are used
};

// out[i * 16 + lane] = sum over c of w[lane][c] * activation i [c].
//
// Affine weights, groups in ascending order, acc from 0, each line one rounding of its own:
//   int8:   acc = fma(s * scale, dot, acc);  acc = fma(b, sum, acc)    dot exact in int32
//   float:  acc = fma(s, dot, acc);          acc = fma(b, sum, acc)    dot by fma in ascending columns from 0
// Because `sum` is that of the rounded activations x', the error against exact activations x is the sum of
// w (x' - x) with w = s q + b: the biases do not amplify it.
// Plain weights: acc = fma(w, x, acc) in ascending columns.
using Product = void (*)(float* out, const uint8_t* block, const Tile& tile);

// With int8 activations.
struct Int8Kernels {
  Product nibbles;
  Product bytes;
  int64_t max_tile;
  int64_t tiles_from = kNever;  // rows of a tile that goes to matrix tiles
  int64_t rows_per_read = 8;    // rows whose products with a block take as long as reading it from memory
  // Around all products of tiles from tiles_from rows on, on the thread that makes them; null: nothing to do.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;

  static constexpr int64_t kNever = INT64_MAX;
};

// With float activations.
struct FloatKernels {
  Product nibbles;
  Product bytes;
  Product bf16;
  Product f32;
  int64_t max_tile;
};

}  // namespace weir::cpu
