// A weight matrix as a checkpoint holds it, plain or quantised, read row by row.
//
// Affine quantisation (MLX): along a row, each group of `group` values shares one scale and one bias, and
// w = scale * q + bias with q unsigned in [0, 2^bits). A row is a little-endian bit stream: value i occupies
// bits [i * bits, (i + 1) * bits).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/tensor.h"

namespace weir {

// How the values of a matrix are stored. bits == 0: plain, in `dtype`. Otherwise affine, and `dtype` is the
// type of scales and biases.
struct Encoding {
  Dtype dtype = Dtype::kBf16;  // kBf16, kF16 or kF32
  int bits = 0;                // 0, 2, 3, 4, 5, 6 or 8
  int group = 0;               // 0, 32, 64 or 128

  bool affine() const { return bits != 0; }
  std::string text() const;  // "bf16", "affine 4-bit, groups of 64"
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

// Rows [0, rows) of a matrix [rows, cols]; stacked matrices [E, out, in] are seen as E * out rows. A view: it
// lives as long as the checkpoint does. Pointers may be odd.
struct Matrix {
  Encoding encoding;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* weight = nullptr;
  const std::byte* scales = nullptr;  // [rows, cols / group], affine only
  const std::byte* biases = nullptr;

  int64_t groups_per_row() const { return encoding.affine() ? cols / encoding.group : 0; }
  size_t weight_row_bytes() const;
  size_t scale_row_bytes() const;
  size_t bytes() const;  // all rows, with scales and biases

  Matrix slice(int64_t first_row, int64_t row_count) const;
};

// out[cols] = row `row` in float32 (scale * q rounded, then + bias rounded).
void decode_row(const Matrix& matrix, int64_t row, float* out);

// out[cols] = the quantised values of an affine row.
void unpack_row(const Matrix& matrix, int64_t row, uint8_t* out);

float matrix_scale(const Matrix& matrix, int64_t row, int64_t group);
float matrix_bias(const Matrix& matrix, int64_t row, int64_t group);

}  // namespace weir
