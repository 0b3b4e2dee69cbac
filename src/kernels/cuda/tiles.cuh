// Reading tiles (tile_matrix.h): the exact product for few rows, and expansion to bf16 for many.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/tile_matrix.h"

namespace weir::cuda {

__device__ __forceinline__ uint4 shared_uint4(const char* p) {
  return *reinterpret_cast<const uint4*>(p);
}

// Register `n` of the operand from a word of nibbles, as two bf16 that are exactly 128 + q: (word & mask) |
// 128.0 in one instruction, which needs the constants in registers.
__device__ __forceinline__ uint32_t offset_nibbles(uint32_t word, int n) {
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(out)
      : "r"(word >> (4 * n)), "r"(0x000f000fu), "r"(0x43004300u));
  return out;
}

// The same without the offset.
__device__ __forceinline__ __nv_bfloat162 nibbles(uint32_t word, int n) {
  const uint32_t raw = offset_nibbles(word, n);
  return __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&raw), __float2bfloat162_rn(128.0f));
}

// Bytes of the even (`odd` 0) or odd nibbles of a word: row i's or row i + 8's, four columns.
__device__ __forceinline__ uint32_t nibble_bytes(uint32_t word, int odd) {
  return (word >> (4 * odd)) & 0x0f0f0f0fu;
}

// c[16, 8] += 32 columns of a tile times the right operand's bytes. A lane's c0 and c1 are row i and the high
// and low plane of one row of x; c2 and c3 row i + 8.
__device__ __forceinline__ void multiply_nibbles(int c[4], uint32_t first, uint32_t second,
                                                 const uint32_t b[2]) {
  const uint32_t a[4] = {nibble_bytes(first, 0), nibble_bytes(first, 1), nibble_bytes(second, 0),
                         nibble_bytes(second, 1)};
  multiply_add_bytes(c, a, b[0], b[1]);
}

__device__ __forceinline__ float joined(int high, int low) {
  return static_cast<float>(256 * high + low);
}

// acc += a tile of quantised weights times 64 columns of x. Whole numbers multiply and add up exactly; scales
// and bias enter once a group: s scale sum(q x) + b sum(x).
template <TileKind kKind>
__device__ __forceinline__ void dot_planes(float acc[2], const char* weights, const char* scales,
                                           const uint32_t b[4], float x_scale, float first_sum,
                                           float second_sum) {
  const int lane = threadIdx.x % 32;
  const uint4 q = shared_uint4(weights + 16 * lane);
  if constexpr (kKind == TileKind::kQ4) {
    int c[4] = {0, 0, 0, 0};
    multiply_nibbles(c, q.x, q.y, b);
    multiply_nibbles(c, q.z, q.w, b + 2);
    const uint2 pair = *reinterpret_cast<const uint2*>(scales + 8 * (lane / 4));
    const float sum = first_sum + second_sum;
    acc[0] = fmaf(low_float(pair.x) * x_scale, joined(c[0], c[1]), fmaf(high_float(pair.x), sum, acc[0]));
    acc[1] = fmaf(low_float(pair.y) * x_scale, joined(c[2], c[3]), fmaf(high_float(pair.y), sum, acc[1]));
  } else {
    const uint4 h = shared_uint4(weights + 512 + 16 * lane);
    const uint32_t low[4] = {q.x, q.y, q.z, q.w}, high[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};
      multiply_nibbles(c, low[2 * half], low[2 * half + 1], b + 2 * half);
      multiply_nibbles(d, high[2 * half], high[2 * half + 1], b + 2 * half);
      const float4 s = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * (lane / 4));
      const float sum = half == 0 ? first_sum : second_sum;
      acc[0] =
          fmaf(s.x * x_scale, fmaf(16.0f, joined(d[0], d[1]), joined(c[0], c[1])), fmaf(s.y, sum, acc[0]));
      acc[1] =
          fmaf(s.z * x_scale, fmaf(16.0f, joined(d[2], d[3]), joined(c[2], c[3])), fmaf(s.w, sum, acc[1]));
    }
  }
}

// acc[s][k] += rows i + 8 k of a tile of bf16 weights times rows 2 t + s of x.
__device__ __forceinline__ void dot_bf16(float acc[2][2], const char* weights, const uint32_t b[8]) {
  float c[4] = {acc[0][0], acc[1][0], acc[0][1], acc[1][1]};
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint4 v = shared_uint4(weights + 512 * step + 16 * (threadIdx.x % 32));
    const uint32_t a[4] = {v.x, v.y, v.z, v.w};
    multiply_add(c, a, b[2 * step], b[2 * step + 1]);
  }
  acc[0][0] = c[0], acc[1][0] = c[1], acc[0][1] = c[2], acc[1][1] = c[3];
}

// A tile in registers, expanded step by step to bf16 values s q + b, rounded once.
template <TileKind kKind>
struct ExpandedTile;

template <>
struct ExpandedTile<TileKind::kQ4> {
  uint32_t words[4];
  __nv_bfloat162 scale[2], bias[2];

  __device__ __forceinline__ void load(const char* weights, const char* scales) {
    const int lane = threadIdx.x % 32;
    const uint4 q = shared_uint4(weights + 16 * lane);
    words[0] = q.x, words[1] = q.y, words[2] = q.z, words[3] = q.w;
    const uint2 pair = *reinterpret_cast<const uint2*>(scales + 8 * (lane / 4));
    const uint32_t rows[2] = {pair.x, pair.y};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t s = __byte_perm(rows[r], 0, 0x1010), b = __byte_perm(rows[r], 0, 0x3232);
      scale[r] = *reinterpret_cast<const __nv_bfloat162*>(&s);
      bias[r] = *reinterpret_cast<const __nv_bfloat162*>(&b);
    }
  }
  // 128 is taken off first, which is exact; folding it into the bias would round at 128 times the scale.
  __device__ __forceinline__ void expand(uint32_t a[4], int step) const {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const __nv_bfloat162 w = __hfma2(nibbles(words[step], n), scale[n % 2], bias[n % 2]);
      a[n] = *reinterpret_cast<const uint32_t*>(&w);
    }
  }
};

template <>
struct ExpandedTile<TileKind::kQ8> {
  uint32_t lows[4], highs[4];
  float4 s[2];

  __device__ __forceinline__ void load(const char* weights, const char* scales) {
    const int lane = threadIdx.x % 32;
    const uint4 l = shared_uint4(weights + 16 * lane), h = shared_uint4(weights + 512 + 16 * lane);
    lows[0] = l.x, lows[1] = l.y, lows[2] = l.z, lows[3] = l.w;
    highs[0] = h.x, highs[1] = h.y, highs[2] = h.z, highs[3] = h.w;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      s[half] = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * (lane / 4));
    }
  }
  __device__ __forceinline__ void expand(uint32_t a[4], int step) const {
    const float4 scale = s[step / 2];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      // Up to 255, exact in bf16.
      const __nv_bfloat162 q =
          __hfma2(nibbles(highs[step], n), __float2bfloat162_rn(16.0f), nibbles(lows[step], n));
      const float by = n % 2 == 0 ? scale.x : scale.z, add = n % 2 == 0 ? scale.y : scale.w;
      a[n] = pack_bf16(fmaf(__low2float(q), by, add), fmaf(__high2float(q), by, add));
    }
  }
};

template <>
struct ExpandedTile<TileKind::kBf16> {
  const char* weights;

  __device__ __forceinline__ void load(const char* in_shared, const char*) { weights = in_shared; }
  __device__ __forceinline__ void expand(uint32_t a[4], int step) const {
    const uint4 v = shared_uint4(weights + 512 * step + 16 * (threadIdx.x % 32));
    a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
  }
};

}  // namespace weir::cuda
