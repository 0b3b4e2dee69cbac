// Products of packed weights with rows of activations. One source, compiled once for each instruction set;
// all give the same bits.
//
// Packed weights. 16 consecutive rows of a matrix make a block, and lane = row in every vector. A block is a
// run of lines of 64 bytes that is read from front to back, once: for each group of G columns some lines,
// then 16 scales and 16 biases. Byte [4 row + j] of a line holds, from its lowest bits on:
//   kBits8  q[row][k + j], in G / 4 lines, k = 4 l in line l;
//   kBits4  q[row][k + j] and q[row][k + 4 + j], in G / 8 lines, k = 8 l;
//   kBits2  q[row][k + j], q[row][k + 4 + j], q[row][k + 8 + j] and q[row][k + 12 + j], in G / 16 lines, k =
//           16 l;
//   kBits3  two values of three bits, q[row][k + 8 l + j] and q[row][k + 8 l + 4 + j], in the three lines l
//           for every 32 columns from k on. The two bits that are left over in each byte are those of the
//           last 8 columns: the lower two of q[row][k + 24 + j] in line 0, of q[row][k + 28 + j] in line 1,
//           and the upper one of either, in this order, in line 2.
// With G = 64 and bfloat16 scales these are 1088, 576, 320 and 448 bytes a group: 8.5, 4.5, 2.5 and 3.5 bits
// a weight. kBf16 and kF32 have for each column 16 values.
//
// Bounds. One row of activations (T = 1) costs 16 multiply-adds of 64 byte pairs for a group of 64 columns,
// so memory is the bound: a step over B bytes takes B / bandwidth. With many rows a tile of N takes, for
// those columns, 16 N of them, 24 operations to separate values of 4 bits (28 for 2 bits, 34 for 3) and 4 N
// to scale the group: 16 N / (20 N + 24) of the rate of the byte products, 73 % at N = 12 (72 and 70 % for 2
// and 3 bits).
// Without VNNI a byte product is two operations, and two registers hold 16 rows on AVX2: a line of 4 bits
// takes 8 N of them and 6 to separate it, on four pipes (Zen 3), so 128 N / (2 N + 1.5) multiply-adds a
// clock.
#pragma once

#include <cstdint>

namespace weir::cpu {

inline constexpr int64_t kBlockRows = 16;
inline constexpr int64_t kLargestTile = 16;  // rows of activations in a tile, of any instruction set

enum class Container : uint8_t { kBits2, kBits3, kBits4, kBits8, kBf16, kF32 };
inline constexpr int kAffineContainers = 4;
inline constexpr int kContainers = 6;

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
  Product products[kAffineContainers];  // by container
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
  Product products[kContainers];  // by container
  int64_t max_tile;
};

}  // namespace weir::cpu
