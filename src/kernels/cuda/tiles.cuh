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

// Bytes of the even nibbles of a word, row i's four columns, and those of the odd ones, row i + 8's, 16 times
// as large.
inline constexpr uint32_t kEven = 0x0f0f0f0fu, kOdd = 0xf0f0f0f0u;
inline constexpr float kOfOdd = 1.0f / 16.0f;

// c[16, 8] += 32 columns of a tile times the right operand's bytes. A lane's c0 and c1 are row i and the high
// and low plane of one row of x; c2 and c3 row i + 8, 16 times as large.
__device__ __forceinline__ void multiply_nibbles(int c[4], uint32_t first, uint32_t second,
                                                 const uint32_t b[2]) {
  const uint32_t a[4] = {first & kEven, first & kOdd, second & kEven, second & kOdd};
  multiply_add_bytes(c, a, b[0], b[1]);
}

// What a group of 64 columns of one row of x contributes beside its whole numbers.
struct GroupSums {
  float scale;
  float unused;
  float first;   // sum of x over the first 32 columns
  float second;  // and over the last
};

__device__ __forceinline__ float joined(int high, int low) {
  return static_cast<float>(256 * high + low);
}

// Tiles of quantised weights times columns of x: whole numbers multiply and add up exactly.
template <TileKind kKind>
struct QuantisedSums;

template <>
struct QuantisedSums<TileKind::kQ4> {
  int c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};  // two chains of products

  // Adds a tile times 64 columns.
  __device__ __forceinline__ void multiply(const char* weights, const uint32_t b[4]) {
    const uint4 q = shared_uint4(weights + 16 * (threadIdx.x % 32));
    multiply_nibbles(c, q.x, q.y, b);
    multiply_nibbles(d, q.z, q.w, b + 2);
  }
  // Scales and bias enter once a group: acc += s scale sum(q x) + b sum(x).
  __device__ __forceinline__ void add_to(float acc[2], const char* scales, const GroupSums& x) const {
    const uint2 pair = *reinterpret_cast<const uint2*>(scales + 8 * (threadIdx.x % 32 / 4));
    const float sum = x.first + x.second;
    const float first = joined(c[0] + d[0], c[1] + d[1]), second = joined(c[2] + d[2], c[3] + d[3]);
    acc[0] = fmaf(low_float(pair.x) * x.scale, first, fmaf(high_float(pair.x), sum, acc[0]));
    acc[1] = fmaf(low_float(pair.y) * (kOfOdd * x.scale), second, fmaf(high_float(pair.y), sum, acc[1]));
  }
};

template <>
struct QuantisedSums<TileKind::kQ8> {
  int c[2][4] = {}, d[2][4] = {};  // of the 32 columns with scales of their own, low and high nibbles

  __device__ __forceinline__ void multiply(const char* weights, const uint32_t b[4]) {
    const int lane = threadIdx.x % 32;
    const uint4 l = shared_uint4(weights + 16 * lane), h = shared_uint4(weights + 512 + 16 * lane);
    multiply_nibbles(c[0], l.x, l.y, b);
    multiply_nibbles(c[1], l.z, l.w, b + 2);
    multiply_nibbles(d[0], h.x, h.y, b);
    multiply_nibbles(d[1], h.z, h.w, b + 2);
  }
  __device__ __forceinline__ void add_to(float acc[2], const char* scales, const GroupSums& x) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 s = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * (threadIdx.x % 32 / 4));
      const float sum = half == 0 ? x.first : x.second;
      const float low[2] = {joined(c[half][0], c[half][1]), joined(c[half][2], c[half][3])};
      const float high[2] = {joined(d[half][0], d[half][1]), joined(d[half][2], d[half][3])};
      acc[0] = fmaf(s.x * x.scale, fmaf(16.0f, high[0], low[0]), fmaf(s.y, sum, acc[0]));
      acc[1] = fmaf(s.z * (kOfOdd * x.scale), fmaf(16.0f, high[1], low[1]), fmaf(s.w, sum, acc[1]));
    }
  }
};

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
