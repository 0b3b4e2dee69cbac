// Reading tiles (tile_matrix.h): the exact product for few rows, and expansion to bf16 for many.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/tile_matrix.h"

namespace weir::cuda {

__device__ __forceinline__ uint4 shared_uint4(const char* p) {
  return *reinterpret_cast<const uint4*>(p);
}

// Register `n` of the operand from a word of nibbles, as two bf16 that are exactly 128 + q.
__device__ __forceinline__ uint32_t offset_nibbles(uint32_t word, int n) {
  return ((word >> (4 * n)) & 0x000f000fu) | 0x43004300u;
}

// Register `n` of the operand from eight bytes, as two bf16 that are exactly q.
__device__ __forceinline__ uint32_t byte_pair(uint2 bytes, int n) {
  const uint32_t word = (n < 2 ? bytes.x : bytes.y) >> (16 * (n % 2));
  return pack_bf16(static_cast<float>(word & 0xff), static_cast<float>((word >> 8) & 0xff));
}

// acc[16, 8] += W x over one tile. `weights` and `scales` are the tile's in shared memory, b the right
// operand of the four steps, `sums` of the lane's two columns the sums of x over the tile's first and last 32
// columns. The tensor cores multiply whole numbers q by bf16 x, exactly, and sum in float32; scale and bias
// enter once a group: s sum(q x) + b sum(x).
template <TileKind kKind>
__device__ __forceinline__ void dot_tile(float acc[4], const char* weights, const char* scales,
                                         const uint32_t b[8], float2 sums0, float2 sums1) {
  const int lane = threadIdx.x % 32, i = lane / 4;
  if constexpr (kKind == TileKind::kQ4) {
    const uint4 q = shared_uint4(weights + 16 * lane);
    const uint32_t words[4] = {q.x, q.y, q.z, q.w};
    float part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      uint32_t a[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) a[n] = offset_nibbles(words[step], n);
      multiply_add(part, a, b[2 * step], b[2 * step + 1]);
    }
    const uint2 pair = *reinterpret_cast<const uint2*>(scales + 8 * i);
    const float s0 = low_float(pair.x), c0 = high_float(pair.x) - 128.0f * s0;
    const float s1 = low_float(pair.y), c1 = high_float(pair.y) - 128.0f * s1;
    const float x0 = sums0.x + sums0.y, x1 = sums1.x + sums1.y;
    acc[0] = fmaf(s0, part[0], fmaf(c0, x0, acc[0]));
    acc[1] = fmaf(s0, part[1], fmaf(c0, x1, acc[1]));
    acc[2] = fmaf(s1, part[2], fmaf(c1, x0, acc[2]));
    acc[3] = fmaf(s1, part[3], fmaf(c1, x1, acc[3]));
  } else if constexpr (kKind == TileKind::kQ8) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 q = shared_uint4(weights + 512 * half + 16 * lane);
      const uint2 bytes[2] = {{q.x, q.y}, {q.z, q.w}};
      float part[4] = {0, 0, 0, 0};
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        uint32_t a[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) a[n] = byte_pair(bytes[step], n);
        multiply_add(part, a, b[4 * half + 2 * step], b[4 * half + 2 * step + 1]);
      }
      const float4 s = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * i);
      const float x0 = half == 0 ? sums0.x : sums0.y, x1 = half == 0 ? sums1.x : sums1.y;
      acc[0] = fmaf(s.x, part[0], fmaf(s.y, x0, acc[0]));
      acc[1] = fmaf(s.x, part[1], fmaf(s.y, x1, acc[1]));
      acc[2] = fmaf(s.z, part[2], fmaf(s.w, x0, acc[2]));
      acc[3] = fmaf(s.z, part[3], fmaf(s.w, x1, acc[3]));
    }
  } else {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint4 v = shared_uint4(weights + 512 * step + 16 * lane);
      const uint32_t a[4] = {v.x, v.y, v.z, v.w};
      multiply_add(acc, a, b[2 * step], b[2 * step + 1]);
    }
  }
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
    const __nv_bfloat162 offset = __float2bfloat162_rn(128.0f);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint32_t raw = offset_nibbles(words[step], n);
      const __nv_bfloat162 q = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&raw), offset);
      const __nv_bfloat162 w = __hfma2(q, scale[n % 2], bias[n % 2]);
      a[n] = *reinterpret_cast<const uint32_t*>(&w);
    }
  }
};

template <>
struct ExpandedTile<TileKind::kQ8> {
  uint4 q[2];
  float4 s[2];

  __device__ __forceinline__ void load(const char* weights, const char* scales) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      q[half] = shared_uint4(weights + 512 * half + 16 * lane);
      s[half] = *reinterpret_cast<const float4*>(scales + 128 * half + 16 * (lane / 4));
    }
  }
  __device__ __forceinline__ void expand(uint32_t a[4], int step) const {
    const uint4 both = q[step / 2];
    const uint2 bytes = step % 2 == 0 ? uint2{both.x, both.y} : uint2{both.z, both.w};
    const float4 scale = s[step / 2];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint32_t pair = byte_pair(bytes, n);
      const float by = n % 2 == 0 ? scale.x : scale.z, add = n % 2 == 0 ? scale.y : scale.w;
      a[n] = pack_bf16(fmaf(low_float(pair), by, add), fmaf(high_float(pair), by, add));
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
