// Attention: what few and many rows share. Heads have 256 dimensions.
//
// A page of the cache holds 256 positions: keys [kv_heads, 256 positions, 256 dims], then values transposed,
// [kv_heads, 256 dims, 256 positions], all bf16. Both products then find their sums' dimension contiguous.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/state.h"

namespace weir::cuda {

inline constexpr int kPage = static_cast<int>(kKvPage);
inline constexpr int kPlane = kPage * kHeadDim;  // elements of one head's keys, or values, in a page

// A head's vector over a warp: lane l has dims 8 l .. 8 l + 7.
__device__ __forceinline__ uint4 packed_head(const __nv_bfloat16* from) {
  return reinterpret_cast<const uint4*>(from)[threadIdx.x % 32];
}
__device__ __forceinline__ void unpack_head(float v[8], const uint4& packed) {
  const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) v[2 * i] = low_float(words[i]), v[2 * i + 1] = high_float(words[i]);
}
__device__ __forceinline__ void load_head(float v[8], const __nv_bfloat16* from) {
  unpack_head(v, packed_head(from));
}

// RMSNorm, then rotation of the pairs (i, i + rotary_dim / 2) by position * frequency[i]. float32. A lane
// keeps what its eight dims need, so that it can be loaded early.
struct HeadNorm {
  float gain[8];
  float frequency[8];
  int half_lanes;  // lanes whose dims are first of a pair
  float epsilon;

  __device__ __forceinline__ HeadNorm(const float* gains, const float* frequencies, int rotary_dim, float eps)
      : half_lanes(rotary_dim / 16), epsilon(eps) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      gain[i] = gains[8 * lane + i];
      frequency[i] = lane < 2 * half_lanes ? frequencies[8 * (lane % half_lanes) + i] : 0.0f;
    }
  }
};

// Cosine and sine of a position for a lane's eight dims.
struct Rotation {
  float cosine[8];
  float sine[8];

  __device__ __forceinline__ Rotation(const HeadNorm& norm, int position) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sincosf(static_cast<float>(position) * norm.frequency[i], &sine[i], &cosine[i]);
    }
  }
};

__device__ __forceinline__ void norm_and_rotate(float v[8], const HeadNorm& norm, const Rotation& rotation) {
  const int lane = threadIdx.x % 32;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) squares = fmaf(v[i], v[i], squares);
  const float scale = rsqrtf(warp_sum(squares) / kHeadDim + norm.epsilon);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = v[i] * scale * norm.gain[i];
  const bool first = lane < norm.half_lanes, rotates = lane < 2 * norm.half_lanes;
  const int partner = !rotates ? lane : first ? lane + norm.half_lanes : lane - norm.half_lanes;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float other = __shfl_sync(0xffffffffu, v[i], partner);
    if (!rotates) continue;
    const float turned = other * rotation.sine[i];
    v[i] = first ? v[i] * rotation.cosine[i] - turned : v[i] * rotation.cosine[i] + turned;
  }
}
__device__ __forceinline__ void norm_and_rotate(float v[8], const HeadNorm& norm, int position) {
  norm_and_rotate(v, norm, Rotation(norm, position));
}

__device__ __forceinline__ uint4 pack_head(const float v[8]) {
  return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
}

struct CacheView {
  void* const* pages;
  int kv_heads;

  __device__ __forceinline__ __nv_bfloat16* keys(int page, int kv_head) const {
    return static_cast<__nv_bfloat16*>(pages[page]) + static_cast<size_t>(kv_head) * kPlane;
  }
  __device__ __forceinline__ __nv_bfloat16* values(int page, int kv_head) const {
    return keys(page, kv_head) + static_cast<size_t>(kv_heads) * kPlane;
  }
};

__device__ __forceinline__ CacheView cache_of(const PassView& pass, int segment, int layer, int kv_heads) {
  return {pass.pages + (static_cast<size_t>(segment) * pass.kv_layers + layer) * pass.page_stride, kv_heads};
}

// A warp writes one position's key (normed and rotated) and value.
__device__ __forceinline__ void append_key(const CacheView& cache, int kv_head, int position,
                                           const uint4& key, const HeadNorm& norm, const Rotation& rotation) {
  float v[8];
  unpack_head(v, key);
  norm_and_rotate(v, norm, rotation);
  __nv_bfloat16* to = cache.keys(position / kPage, kv_head) + position % kPage * kHeadDim;
  reinterpret_cast<uint4*>(to)[threadIdx.x % 32] = pack_head(v);
}
__device__ __forceinline__ void append_value(const CacheView& cache, int kv_head, int position,
                                             const uint4& value) {
  const int lane = threadIdx.x % 32;
  const uint32_t words[4] = {value.x, value.y, value.z, value.w};
  __nv_bfloat16* to = cache.values(position / kPage, kv_head) + position % kPage;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto bits = static_cast<unsigned short>(i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16);
    to[(8 * lane + i) * kPage] = __ushort_as_bfloat16(bits);
  }
}

}  // namespace weir::cuda
