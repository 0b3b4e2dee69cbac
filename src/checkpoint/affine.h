// Affine quantisation as MLX's CPU code does it, bit for bit (see matrix.h for the format).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/matrix.h"

namespace weir {

// Quantises one row. bits is 2, 3, 4, 5, 6 or 8; group is 32, 64 or 128 and divides the row. `scales` and
// `biases`, one per group, come out unrounded, and q is chosen with the unrounded ones. A group that holds
// NaN or infinity gets NaN for both, which Checkpoint refuses to read.
void quantize_row(std::span<const float> row, int bits, int group, std::span<uint8_t> q,
                  std::span<float> scales, std::span<float> biases);

// q (values below 2^bits, a multiple of 8 of them) to the bit stream of q.size() * bits / 8 bytes.
void pack_row(std::span<const uint8_t> q, int bits, std::byte* out);

// A matrix that owns its bytes.
struct OwnedMatrix {
  Encoding encoding;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<std::byte> weight;
  std::vector<std::byte> scales;
  std::vector<std::byte> biases;

  Matrix view() const {
    return {encoding,
            rows,
            cols,
            weight.data(),
            encoding.affine() ? scales.data() : nullptr,
            encoding.affine() ? biases.data() : nullptr};
  }
};

// values [rows, cols] stored in `encoding`, whose dtype must be BF16 or F32. Plain values, scales and biases
// are rounded to it.
OwnedMatrix encode_matrix(std::span<const float> values, int64_t rows, int64_t cols,
                          const Encoding& encoding);

}  // namespace weir
