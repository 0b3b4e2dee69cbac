// Products with few rows (T <= 8): what their kernels share.
//
// The unit of work is a warp with 16 rows and 512 columns of the matrix, a "part": it asks for all its
// weights at once with asynchronous copies, before it waits for the kernel that makes x; so the whole matrix
// is in flight while x is being finished. The parts of a row are added in order of their columns. Rows of x
// are the columns of the tensor cores' right operand; up to eight share one reading of the weights, and one
// row's sums do not depend on the others.
#pragma once

#include "kernels/cuda/tiles.cuh"

namespace weir::cuda {

inline constexpr int kFewRows = 8;
inline constexpr int kPartTiles = 8;  // of a part: 512 columns

constexpr int parts_of(int cols) {
  return (cols + kPartTiles * kTileCols - 1) / (kPartTiles * kTileCols);
}
constexpr int part_bytes(TileKind kind) {
  return kPartTiles * (tile_weight_bytes(kind) + tile_scale_bytes(kind));
}
constexpr int padded_cols(int cols) {
  return (cols + kTileCols - 1) / kTileCols * kTileCols;
}

// x in shared memory: `rows` rows of bf16, `stride` bytes apart (16 more than a multiple of 128, so that
// eight rows read at once lie in different banks), then 16 zero bytes, and the sums of each 32 columns.
struct StagedRows {
  char* rows;
  float* sums;  // [T, sum_stride]
  int stride;
  int sum_stride;
  int count;
  int cols;

  static constexpr int bytes(int count, int cols) {
    const int padded = padded_cols(cols);
    const int sums = (count * (padded / 32) * 4 + 15) / 16 * 16;
    return count * (2 * padded + 16) + 16 + sums + kFewRows * 32 * 4;
  }
  __device__ __forceinline__ StagedRows(char* memory, int rows_here, int columns)
      : rows(memory), count(rows_here), cols(columns) {
    const int padded = padded_cols(columns);
    stride = 2 * padded + 16;
    sum_stride = padded / 32;
    sums = reinterpret_cast<float*>(memory + count * stride + 16);
  }
  __device__ __forceinline__ char* zero() const { return rows + count * stride; }
  __device__ __forceinline__ float* scratch() const { return sums + count * sum_stride; }  // [32, 8]
};

// Eight values (a "chunk") of row t into shared memory, and their part of the sum of 32. All lanes of a warp
// call it together; lanes of four consecutive chunks are neighbours.
__device__ __forceinline__ void stage_chunk(const StagedRows& x, int t, int chunk, bool real,
                                            const float v[8]) {
  uint4 packed;
  packed.x = pack_bf16(v[0], v[1]);
  packed.y = pack_bf16(v[2], v[3]);
  packed.z = pack_bf16(v[4], v[5]);
  packed.w = pack_bf16(v[6], v[7]);
  const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum += low_float(words[i]) + high_float(words[i]);
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  if (!real) return;
  *reinterpret_cast<uint4*>(x.rows + t * x.stride + 16 * chunk) = packed;
  if (chunk % 4 == 0) x.sums[t * x.sum_stride + chunk / 4] = sum;
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

// Rows as they are, `threads` threads numbered by `thread`. Columns are a multiple of 8.
template <class Value>
__device__ __forceinline__ void stage_row(const StagedRows& x, int t, const Value* from, int thread,
                                          int threads) {
  const int chunks = padded_cols(x.cols) / 8;
  for (int first = 0; first < chunks; first += threads) {
    const int chunk = first + thread;
    float v[8] = {};
    if (chunk < x.cols / 8) load_chunk(v, from + 8 * chunk);
    stage_chunk(x, t, chunk, chunk < chunks, v);
  }
}

// RMSNorm of rows by the whole block. A thread has one chunk of each row: blocks that norm have at least 64
// threads for each 512 columns. Sums of squares in float32: each thread its own eight in order, then across
// the warp, then over the warps in order.
class RowNorm {
 public:
  // Before the wait.
  __device__ __forceinline__ RowNorm(const float* gain, int cols)
      : real_(static_cast<int>(threadIdx.x) < cols / 8) {
    if (real_) load_chunk(gain_, gain + 8 * threadIdx.x);
  }

  // Rows of `from`; `row_of[t]`, if given, says which.
  __device__ __forceinline__ void stage(const StagedRows& x, const float* from, const int32_t* row_of,
                                        float epsilon) const {
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
    float v[8];
    for (int t = 0; t < x.count; ++t) {
      load(v, x, from, row_of, t);
      float squares = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) squares = fmaf(v[k], v[k], squares);
      squares = warp_sum(squares);
      if (threadIdx.x % 32 == 0) x.scratch()[warp * kFewRows + t] = squares;
    }
    __syncthreads();
    for (int t = 0; t < x.count; ++t) {
      if (x.count > 1) load(v, x, from, row_of, t);  // again, from L1
      float squares = 0;
      for (int w = 0; w < warps; ++w) squares += x.scratch()[w * kFewRows + t];
      const float scale = rsqrtf(squares / static_cast<float>(x.cols) + epsilon);
#pragma unroll
      for (int k = 0; k < 8; ++k) v[k] = v[k] * scale * gain_[k];
      stage_chunk(x, t, threadIdx.x, static_cast<int>(threadIdx.x) < padded_cols(x.cols) / 8, v);
    }
  }

 private:
  __device__ __forceinline__ void load(float v[8], const StagedRows& x, const float* from,
                                       const int32_t* row_of, int t) const {
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = 0;
    const size_t row = row_of != nullptr ? row_of[t] : t;
    if (real_) load_chunk(v, from + row * x.cols + 8 * threadIdx.x);
  }

  bool real_;
  float gain_[8] = {};
};

// A warp's part: where its weights are and go.
struct Part {
  char* shared;  // part_bytes
  int first_tile;
  int tiles;  // of columns
};

__device__ __forceinline__ Part part_of(const TileMatrix& w, char* shared, int part) {
  const int first = part * kPartTiles;
  return {shared, first, min(kPartTiles, w.groups() - first)};
}

// Asks for the part's weights of row tile `row_tile`.
template <TileKind kKind>
__device__ __forceinline__ void fetch_part(const TileMatrix& w, const Part& part, int row_tile) {
  constexpr int kTileBytes = tile_weight_bytes(kKind), kScaleBytes = tile_scale_bytes(kKind);
  const int lane = threadIdx.x % 32;
  const size_t tile = static_cast<size_t>(row_tile) * w.groups() + part.first_tile;
  const char* weights = w.weights + tile * kTileBytes;
  const uint32_t to = shared_address(part.shared);
  if constexpr (kScaleBytes > 0) {
    const char* scales = w.scales + tile * kScaleBytes;
#pragma unroll
    for (int at = 0; at < kPartTiles * kScaleBytes; at += 512) {
      const int mine = at + 16 * lane;
      if (mine < part.tiles * kScaleBytes) copy_async(to + kPartTiles * kTileBytes + mine, scales + mine);
    }
  }
#pragma unroll
  for (int at = 0; at < kPartTiles * kTileBytes; at += 512) {
    if (at < part.tiles * kTileBytes) copy_async(to + at + 16 * lane, weights + at + 16 * lane);
  }
  copy_async_commit();
}

// Where a lane reads x for the right operand, and the sums of its two columns.
struct Operand {
  uint32_t address;
  uint32_t step;  // bytes for 32 columns; 0 where the lane reads zeros
  const float* sums0;
  const float* sums1;

  __device__ __forceinline__ Operand(const StagedRows& x, const Part& part) {
    const int lane = threadIdx.x % 32, token = lane % 8, t = lane % 4;
    const bool real = token < x.count;
    address =
        real ? shared_address(x.rows) + token * x.stride + part.first_tile * 2 * kTileCols + 16 * (lane / 8)
             : shared_address(x.zero());
    step = real ? 64 : 0;
    sums0 = x.sums + min(2 * t, x.count - 1) * x.sum_stride + 2 * part.first_tile;
    sums1 = x.sums + min(2 * t + 1, x.count - 1) * x.sum_stride + 2 * part.first_tile;
  }
};

// Tiles of a part side by side, so that their chains of products overlap.
template <TileKind kKind, int kTiles>
__device__ __forceinline__ void dot_tiles(float acc[4], const Part& part, const Operand& x, int first) {
  const char* scales = part.shared + kPartTiles * tile_weight_bytes(kKind) + first * tile_scale_bytes(kKind);
  DotTile<kKind> tiles[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    tiles[i].load(part.shared + (first + i) * tile_weight_bytes(kKind));
    load_matrices(tiles[i].b, x.address + 2 * (first + i) * x.step);
    load_matrices(tiles[i].b + 4, x.address + (2 * (first + i) + 1) * x.step);
  }
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) tiles[i].multiply(step);
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    tiles[i].add_to(acc, scales + i * tile_scale_bytes(kKind),
                    *reinterpret_cast<const float2*>(x.sums0 + 2 * (first + i)),
                    *reinterpret_cast<const float2*>(x.sums1 + 2 * (first + i)));
  }
}

// acc[16, 8] = the part's weights times the staged rows. Waits for the warp's own copies, but for the latest
// `kLater` fetches.
template <TileKind kKind, int kLater = 0>
__device__ __forceinline__ void dot_part(float acc[4], const Part& part, const StagedRows& x) {
  constexpr int kSide = 2;  // more would cost registers, and with them blocks on a multiprocessor
  copy_async_wait<kLater>();
  __syncwarp();
  const Operand operand(x, part);
  acc[0] = acc[1] = acc[2] = acc[3] = 0;
  if (part.tiles == kPartTiles) {
#pragma unroll
    for (int first = 0; first < kPartTiles; first += kSide)
      dot_tiles<kKind, kSide>(acc, part, operand, first);
  } else {
    for (int tile = 0; tile < part.tiles; ++tile) dot_tiles<kKind, 1>(acc, part, operand, tile);
  }
}

// The sums of the block's warps, [warp][column of x][row of the tile]; written by each warp.
__device__ __forceinline__ void store_part(float* sums, const float acc[4], int warp) {
  const int lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
  float* to = sums + warp * kFewRows * kTileRows;
  to[2 * t * kTileRows + i] = acc[0];
  to[(2 * t + 1) * kTileRows + i] = acc[1];
  to[2 * t * kTileRows + i + 8] = acc[2];
  to[(2 * t + 1) * kTileRows + i + 8] = acc[3];
}

}  // namespace weir::cuda
