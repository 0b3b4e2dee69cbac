// One value of a matrix in the checkpoint's own format (checkpoint/matrix.h). Bytes are read one by one: rows
// may start at any address, and this is for lookups and for packing only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/raw_matrix.h"

namespace weir::cuda {

__device__ inline float raw_float(RawType type, const uint8_t* data, size_t index) {
  if (type == RawType::kF32) {
    const uint8_t* b = data + 4 * index;
    return __uint_as_float(b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24);
  }
  const auto half = static_cast<uint16_t>(data[2 * index] | data[2 * index + 1] << 8);
  if (type == RawType::kBf16) return __uint_as_float(static_cast<uint32_t>(half) << 16);
  return __half2float(__ushort_as_half(half));
}

// The quantised value: bits [i bits, (i + 1) bits) of the row's little-endian stream.
__device__ inline uint32_t raw_quantised(const RawMatrix& m, int row, int col) {
  const uint8_t* stream = m.weight + static_cast<size_t>(row) * (static_cast<size_t>(m.cols) * m.bits / 8);
  const int bit = col * m.bits, byte = bit / 8, shift = bit % 8;
  uint32_t window = stream[byte];
  if (shift + m.bits > 8) window |= static_cast<uint32_t>(stream[byte + 1]) << 8;
  return (window >> shift) & ((1u << m.bits) - 1);
}

__device__ inline float raw_scale(const RawMatrix& m, int row, int col) {
  return raw_float(m.type, m.scales, static_cast<size_t>(row) * (m.cols / m.group) + col / m.group);
}
__device__ inline float raw_bias(const RawMatrix& m, int row, int col) {
  return raw_float(m.type, m.biases, static_cast<size_t>(row) * (m.cols / m.group) + col / m.group);
}

__device__ inline float raw_value(const RawMatrix& m, int row, int col) {
  if (m.bits == 0) return raw_float(m.type, m.weight, static_cast<size_t>(row) * m.cols + col);
  const float scaled = __fmul_rn(raw_scale(m, row, col), static_cast<float>(raw_quantised(m, row, col)));
  return __fadd_rn(scaled, raw_bias(m, row, col));
}

}  // namespace weir::cuda
