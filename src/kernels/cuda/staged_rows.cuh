// x for products with few rows, in shared memory.
//
// For quantised weights x becomes 16-bit whole numbers, x = scale q with one scale for each 64 columns, held
// as two planes of bytes, q = 256 high + low: so the tensor cores' integer products see x to 2^-16 of the
// group's largest value, better than bf16, and every sum of a group is exact. A token is two columns of the
// right operand, four tokens fill it. Bytes lie in the order in which the left operand's nibbles come out of
// their words (tile_matrix.h): of 16 columns, byte 4 t + e is column 2 t, 2 t + 8, 2 t + 1, 2 t + 9 for e = 0
// .. 3. For bf16 weights x is bf16, and a token is one column.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tiles.cuh"

namespace weir::cuda {

constexpr int padded_cols(int cols) {
  return (cols + kTileCols - 1) / kTileCols * kTileCols;
}

// Whether x is whole numbers beside weights of this kind.
constexpr bool has_planes(TileKind kind) {
  return kind != TileKind::kBf16;
}

inline constexpr int kZeros = 512;  // bytes; as columns of x, eight tiles

template <TileKind kKind>
struct StagedRows {
  static constexpr bool kPlanes = has_planes(kKind);

  char* memory;
  GroupSums* sums;  // [T, groups]
  int stride;       // bytes of a plane (or bf16 row): 16 more than a multiple of 64
  int groups;
  int count;
  int cols;

  // Rows, zeros, sums, scratch [32, 8].
  static constexpr int bytes(int count, int cols) {
    const int padded = padded_cols(cols);
    return count * (2 * padded + 32) + kZeros +
           count * (padded / kTileCols) * static_cast<int>(sizeof(GroupSums)) + kFewRows * 32 * 4;
  }
  __device__ __forceinline__ StagedRows(char* shared, int rows, int columns)
      : memory(shared), count(rows), cols(columns) {
    const int padded = padded_cols(columns);
    groups = padded / kTileCols;
    stride = kPlanes ? padded + 16 : 2 * padded + 16;
    sums = reinterpret_cast<GroupSums*>(shared + count * (2 * padded + 32) + kZeros);
  }
  __device__ __forceinline__ char* row(int t) const { return memory + t * (kPlanes ? 2 : 1) * stride; }
  __device__ __forceinline__ char* zeros() const { return reinterpret_cast<char*>(sums) - kZeros; }
  // One row in global memory for another kernel to take over: its planes, then its groups' sums.
  __device__ __forceinline__ static StagedRows handed_on(char* rows, int t, int columns) {
    StagedRows x(nullptr, 1, columns);
    x.memory = rows + t * x.bytes_handed_on();
    x.sums = reinterpret_cast<GroupSums*>(x.memory + 2 * x.stride);
    return x;
  }
  // Writes row t there, times a factor, by the whole block.
  __device__ __forceinline__ void hand_on(char* rows, int t, float factor) const {
    const StagedRows to = handed_on(rows, t, cols);
    for (int i = threadIdx.x; i < 2 * stride / 16; i += blockDim.x) {
      reinterpret_cast<uint4*>(to.memory)[i] = reinterpret_cast<const uint4*>(row(t))[i];
    }
    for (int i = threadIdx.x; i < groups; i += blockDim.x) {
      const GroupSums s = sums[t * groups + i];
      to.sums[i] = {s.scale * factor, 0, s.first * factor, s.second * factor};
    }
  }
  // Asks for all rows, from row `first` there on, by the whole block.
  __device__ __forceinline__ void take_over(const char* rows, int first) const {
    const int planes = 2 * stride, bytes = static_cast<int>(bytes_handed_on());
    for (int t = 0; t < count; ++t) {
      const char* from = rows + (first + t) * bytes_handed_on();
      const uint32_t to_planes = shared_address(row(t)), to_sums = shared_address(sums + t * groups);
      for (int at = 16 * threadIdx.x; at < bytes; at += 16 * blockDim.x) {
        copy_async(at < planes ? to_planes + at : to_sums + at - planes, from + at);
      }
    }
    copy_async_commit();
  }
  // By threads numbered by `thread`.
  __device__ __forceinline__ void clear_zeros(int thread) const {
    if (thread < kZeros / 16) reinterpret_cast<uint4*>(zeros())[thread] = {0, 0, 0, 0};
  }
  __device__ __forceinline__ float* scratch() const {
    return reinterpret_cast<float*>(sums + count * groups);
  }

 private:
  __device__ __forceinline__ size_t bytes_handed_on() const {
    return 2 * stride + groups * sizeof(GroupSums);
  }
};

__device__ __forceinline__ float shuffled_max(float x, int lanes) {
  for (int step = 1; step < lanes; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// 16-bit whole numbers are rounded by adding 1.5 * 2^23, whose low bits then hold them; 128 more makes the
// upper byte the nearest one, and the lower byte 128 too large.
inline constexpr float kLargestWhole = 127.0f * 256.0f;
inline constexpr float kRoundWhole = 12582912.0f + 128.0f;
inline constexpr uint32_t kZeroWhole = 0x4b400000u + 128;

// A warp's 32 columns of a row, from `column` - lane on, of which each lane has one value; `top` is the
// largest of the group of 64, without its sign. The row is written times `factor`.
template <TileKind kKind>
__device__ __forceinline__ void stage_column(const StagedRows<kKind>& x, int column, float value, float top,
                                             float factor) {
  static_assert(has_planes(kKind));
  const float inverse = top > 0 ? __fdividef(kLargestWhole, top) : 0.0f;
  const float scale = top * (1.0f / kLargestWhole) * factor;
  constexpr uint32_t kAll = 0xffffffffu;
  const uint32_t bits = __float_as_uint(fmaf(value, inverse, kRoundWhole));
  const int sum = __reduce_add_sync(kAll, static_cast<int>(bits - kZeroWhole));
  // Of 16 columns the lanes of 2 t and 2 t + 1 write word t, the first in the high plane, the second in the
  // low.
  const int c = column % 16;
  const uint32_t own = bits ^ 0x80, pair = __byte_perm(own, __shfl_xor_sync(kAll, own, 8), 0x5140);
  const uint32_t next = __shfl_xor_sync(kAll, pair, 1);
  const uint32_t word = c % 2 == 0 ? __byte_perm(pair, next, 0x7632) : __byte_perm(next, pair, 0x5410);
  if (c < 8) *reinterpret_cast<uint32_t*>(x.memory + c % 2 * x.stride + column - c + c / 2 * 4) = word;
  GroupSums& of_group = x.sums[column / kTileCols];
  if (column % kTileCols == 0) of_group.scale = scale, of_group.first = scale * static_cast<float>(sum);
  if (column % kTileCols == 32) of_group.second = scale * static_cast<float>(sum);
}

// Eight values (a "chunk") of row t. All lanes of a warp call it together; lanes of eight
// consecutive chunks, a group, are neighbours.
template <TileKind kKind>
__device__ __forceinline__ void stage_chunk(const StagedRows<kKind>& x, int t, int chunk, bool real,
                                            const float v[8]) {
  if constexpr (!has_planes(kKind)) {
    const uint4 packed{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
                       pack_bf16(v[6], v[7])};
    if (real) *reinterpret_cast<uint4*>(x.row(t) + 16 * chunk) = packed;
  } else {
    constexpr uint32_t kAll = 0xffffffffu;
    float top = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) top = fmaxf(top, fabsf(v[k]));
    top = shuffled_max(top, 8);
    const float inverse = top > 0 ? __fdividef(kLargestWhole, top) : 0.0f,
                scale = top * (1.0f / kLargestWhole);
    uint32_t bits[8], total = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      bits[k] = __float_as_uint(fmaf(v[k], inverse, kRoundWhole));
      total += bits[k];
    }
    int sum = static_cast<int>(total - 8 * kZeroWhole);
    sum += __shfl_xor_sync(kAll, sum, 1);
    sum += __shfl_xor_sync(kAll, sum, 2);
    const int other = __shfl_xor_sync(kAll, sum, 4);
    // Chunks pair up to 16 columns; the first of a pair keeps bytes 0 .. 7, the second bytes 8 .. 15.
    const bool second = chunk % 2 == 1;
    uint32_t planes[2][2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint32_t low_pair = __byte_perm(bits[2 * k], bits[2 * k + 1], 0x5410),
                     high_pair = __byte_perm(bits[2 * k + 4], bits[2 * k + 5], 0x5410);
      const uint32_t kept = second ? high_pair : low_pair;
      const uint32_t got = __shfl_xor_sync(kAll, second ? low_pair : high_pair, 1);
      const uint32_t first_chunk = second ? got : kept, second_chunk = second ? kept : got;
      planes[0][k] = __byte_perm(first_chunk, second_chunk, 0x7351);
      planes[1][k] = __byte_perm(first_chunk, second_chunk, 0x6240) ^ 0x80808080u;
    }
    if (!real) return;
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
      *reinterpret_cast<uint2*>(x.row(t) + plane * x.stride + 8 * chunk) = {planes[plane][0],
                                                                            planes[plane][1]};
    }
    if (chunk % 8 == 0) {
      x.sums[t * x.groups + chunk / 8] = {scale, 0, scale * static_cast<float>(sum),
                                          scale * static_cast<float>(other)};
    }
  }
}

__device__ __forceinline__ void load_chunk(float v[8], const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ __forceinline__ void load_chunk(float v[8], const __nv_bfloat16* from) {
  const uint4 a = *reinterpret_cast<const uint4*>(from);
  const uint32_t words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) v[2 * i] = low_float(words[i]), v[2 * i + 1] = high_float(words[i]);
}

// Rows as they are, by `threads` threads numbered by `thread`. Columns are a multiple of 8.
template <TileKind kKind, class Value>
__device__ __forceinline__ void stage_row(const StagedRows<kKind>& x, int t, const Value* from, int thread,
                                          int threads) {
  constexpr int kAtOnce = 2;
  const int chunks = padded_cols(x.cols) / 8;
  for (int first = 0; first < chunks; first += kAtOnce * threads) {
    float v[kAtOnce][8] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int chunk = first + k * threads + thread;
      if (chunk < x.cols / 8) load_chunk(v[k], from + 8 * chunk);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int chunk = first + k * threads + thread;
      stage_chunk(x, t, chunk, chunk < chunks, v[k]);
    }
  }
}

}  // namespace weir::cuda
