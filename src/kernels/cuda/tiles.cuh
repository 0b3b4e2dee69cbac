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

// W x over one tile, step by step. b is the right operand of the four steps; `sums` of the lane's two columns
// are the sums of x over the tile's first and last 32 columns. The tensor cores multiply whole numbers q by
// bf16 x, exactly, and sum in float32; scale and bias enter once a group: s sum(q x) + b sum(x).
template <TileKind kKind>
struct DotTile;

template <>
struct DotTile<TileKind::kQ4> {
  uint32_t words[4];
  uint32_t b[8];
  float part[4] = {0, 0, 0, 0};

  __device__ __forceinline__ void load(const char* weights) {
    const uint4 q = shared_uint4(weights + 16 * (threadIdx.x % 32));
    words[0] = q.x, words[1] = q.y, words[2] = q.z, words[3] = q.w;
  }
  __device__ __forceinline__ void multiply(int step) {
    uint32_t a[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) a[n] = offset_nibbles(words[step], n);
    multiply_add(part, a, b[2 * step], b[2 * step + 1]);
  }
  __device__ __forceinline__ void add_to(float acc[4], const char* scales, float2 sums0, float2 sums1) const {
    const uint2 pair = *reinterpret_cast<const uint2*>(scales + 8 * (threadIdx.x % 32 / 4));
    const float s0 = low_float(pair.x), c0 = high_float(pair.x) - 128.0f * s0;
    const float s1 = low_float(pair.y), c1 = high_float(pair.y) - 128.0f * s1;
    const float x0 = sums0.x + sums0.y, x1 = sums1.x + sums1.y;
    acc[0] = fmaf(s0, part[0], fmaf(c0, x0, acc[0]));
    acc[1] = fmaf(s0, part[1], fmaf(c0, x1, acc[1]));
    acc[2] = fmaf(s1, part[2], fmaf(c1, x0, acc[2]));
    acc[3] = fmaf(s1, part[3], fmaf(c1, x1, acc[3]));
  }
};

// The two halves of a tile have their own scales, and the two nibbles of a value their own sums.
template <>
struct DotTile<TileKind::kQ8> {
  uint32_t lows[4], highs[4];
  uint32_t b[8];
  float low[2][4] = {}, high[2][4] = {};

  __device__ __forceinline__ void load(const char* weights) {
    const int lane = threadIdx.x % 32;
    const uint4 l = shared_uint4(weights + 16 * lane), h = shared_uint4(weights + 512 + 16 * lane);
    lows[0] = l.x, lows[1] = l.y, lows[2] = l.z, lows[3] = l.w;
    highs[0] = h.x, highs[1] = h.y, highs[2] = h.z, highs[3] = h.w;
  }
  __device__ __forceinline__ void multiply(int step) {
    uint32_t a[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) a[n] = offset_nibbles(lows[step], n);
    multiply_add(low[step / 2], a, b[2 * step], b[2 * step + 1]);
#pragma unroll
    for (int n = 0; n < 4; ++n) a[n] = offset_nibbles(highs[step], n);
    multiply_add(high[step / 2], a, b[2 * step], b[2 * step + 1]);
  }
  __device__ __forceinline__ void add_to(float acc[4], const char* scales, float2 sums0, float2 sums1) const {
    constexpr float kOffset = 128.0f + 16.0f * 128.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 s = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * (threadIdx.x % 32 / 4));
      const float x0 = half == 0 ? sums0.x : sums0.y, x1 = half == 0 ? sums1.x : sums1.y;
      const float c0 = s.y - kOffset * s.x, c1 = s.w - kOffset * s.z;
      acc[0] = fmaf(s.x, fmaf(16.0f, high[half][0], low[half][0]), fmaf(c0, x0, acc[0]));
      acc[1] = fmaf(s.x, fmaf(16.0f, high[half][1], low[half][1]), fmaf(c0, x1, acc[1]));
      acc[2] = fmaf(s.z, fmaf(16.0f, high[half][2], low[half][2]), fmaf(c1, x0, acc[2]));
      acc[3] = fmaf(s.z, fmaf(16.0f, high[half][3], low[half][3]), fmaf(c1, x1, acc[3]));
    }
  }
};

template <>
struct DotTile<TileKind::kBf16> {
  uint4 values[4];
  uint32_t b[8];
  float part[4] = {0, 0, 0, 0};

  __device__ __forceinline__ void load(const char* weights) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
      values[step] = shared_uint4(weights + 512 * step + 16 * (threadIdx.x % 32));
  }
  __device__ __forceinline__ void multiply(int step) {
    const uint32_t a[4] = {values[step].x, values[step].y, values[step].z, values[step].w};
    multiply_add(part, a, b[2 * step], b[2 * step + 1]);
  }
  __device__ __forceinline__ void add_to(float acc[4], const char*, float2, float2) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) acc[c] += part[c];
  }
};

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
