// Products with few rows (T <= 8): what their kernels share.
//
// The unit of work is a warp with 16 rows and 512 columns of the matrix, a "part": it asks for all its
// weights at once with asynchronous copies, before it waits for the kernel that makes x; so the whole matrix
// is in flight while x is being finished. The parts of a row are added in order of their columns. Rows of x
// are columns of the tensor cores' right operand (staged_rows.cuh); up to eight share one reading of the
// weights, and one row's sums do not depend on the others.
#pragma once

#include "kernels/cuda/staged_rows.cuh"

namespace weir::cuda {

inline constexpr int kPartTiles = 8;  // of a part: 512 columns

constexpr int parts_of(int cols) {
  return (cols + kPartTiles * kTileCols - 1) / (kPartTiles * kTileCols);
}
constexpr int part_bytes(TileKind kind) {
  return kPartTiles * (tile_weight_bytes(kind) + tile_scale_bytes(kind));
}
// Shared memory of a warp's sums.
constexpr int sums_bytes() {
  return kFewRows * kTileRows * static_cast<int>(sizeof(float));
}
// Shared memory of staged rows.
constexpr int staged_bytes(int count, int cols) {
  return StagedRows<TileKind::kQ4>::bytes(count, cols);
}

// RMSNorm of rows by the whole block. A thread has one chunk of each row: blocks that norm have at least 64
// threads for each 512 columns. What is staged is x gain; the row's factor 1 / sqrt(mean(x^2) + epsilon)
// multiplies the products' sums, so that no barrier stands before the staging. Sums of squares in float32:
// each thread its own eight in order, then across the warp, then over the warps in order.
class RowNorm {
 public:
  // Before the wait.
  __device__ __forceinline__ RowNorm(const float* gain, int cols)
      : real_(static_cast<int>(threadIdx.x) < cols / 8) {
    if (real_) load_chunk(gain_, gain + 8 * threadIdx.x);
  }

  // Rows of `from`; `row_of[t]`, if given, says which.
  template <TileKind kKind>
  __device__ __forceinline__ void stage(const StagedRows<kKind>& x, const float* from,
                                        const int32_t* row_of) const {
    float v[8];
    for (int t = 0; t < x.count; ++t) {
      load(v, x.cols, from, row_of != nullptr ? row_of[t] : t);
      float squares = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) squares = fmaf(v[k], v[k], squares);
#pragma unroll
      for (int k = 0; k < 8; ++k) v[k] *= gain_[k];
      stage_chunk(x, t, threadIdx.x, static_cast<int>(threadIdx.x) < padded_cols(x.cols) / 8, v);
      squares = warp_sum(squares);
      if (threadIdx.x % 32 == 0) x.scratch()[t * kOfRow + threadIdx.x / 32] = squares;
    }
  }

  // Behind the barrier that follows stage(): thread t finds the factor of row t, which is there behind the
  // next barrier.
  template <TileKind kKind>
  __device__ __forceinline__ static void find_factors(const StagedRows<kKind>& x, float epsilon) {
    if (static_cast<int>(threadIdx.x) >= x.count) return;
    float* of_row = x.scratch() + threadIdx.x * kOfRow;
    const float squares = sum_of_warps(of_row, blockDim.x / 32);
    of_row[kMaxWarps] = rsqrtf(squares / static_cast<float>(x.cols) + epsilon);
  }
  template <TileKind kKind>
  __device__ __forceinline__ static float factor(const StagedRows<kKind>& x, int t) {
    return x.scratch()[t * kOfRow + kMaxWarps];
  }

  // The normed row itself, times its factor, in bf16.
  __device__ __forceinline__ void write(__nv_bfloat16* to, const float* from, int cols, float factor) const {
    float v[8];
    load(v, cols, from, 0);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = v[k] * factor * gain_[k];
    if (!real_) return;
    reinterpret_cast<uint4*>(to)[threadIdx.x] = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
                                                 pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
  }

 private:
  static constexpr int kMaxWarps = 16, kOfRow = 32;

  // In order of the warps; all loads at once.
  __device__ __forceinline__ static float sum_of_warps(const float* of_warp, int warps) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kMaxWarps; w += 4) {
      const float4 v = *reinterpret_cast<const float4*>(of_warp + w);
      if (w < warps) sum += v.x;
      if (w + 1 < warps) sum += v.y;
      if (w + 2 < warps) sum += v.z;
      if (w + 3 < warps) sum += v.w;
    }
    return sum;
  }
  __device__ __forceinline__ void load(float v[8], int cols, const float* from, size_t row) const {
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = 0;
    if (real_) load_chunk(v, from + row * cols + 8 * threadIdx.x);
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

// The sum of `parts` parts of one row, in order of the columns; all loads at once.
__device__ __forceinline__ float sum_of_parts(const float* sums, int parts) {
  constexpr int kAtOnce = 8, kStride = kFewRows * kTileRows;
  float sum = 0;
  for (int first = 0; first < parts; first += kAtOnce) {
    float part[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) part[k] = first + k < parts ? sums[(first + k) * kStride] : 0.0f;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k < parts) sum += part[k];
    }
  }
  return sum;
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

// Where a lane reads x for the right operand: 64 columns by one load of four matrices where x is bytes, by
// two where it is bf16.
template <TileKind kKind>
struct Operand {
  static constexpr int kPlanes = has_planes(kKind) ? 2 : 1;
  static constexpr int kStep = 128 / kPlanes;  // bytes for 64 columns

  uint32_t address;

  // Row first + i / kPlanes of x in column i; sums of columns without a row are dropped.
  __device__ __forceinline__ Operand(const StagedRows<kKind>& x, const Part& part, int first_row) {
    const int column = threadIdx.x % 8, row = first_row + column / kPlanes;
    address = row < x.count ? of_row(x, part, row) : shared_address(x.zeros());
  }
  // The first row's planes in columns 2 pair and 2 pair + 1, zeros in the others.
  __device__ __forceinline__ Operand(const StagedRows<kKind>& x, const Part& part, int, int pair) {
    const int column = threadIdx.x % 8;
    address = column / 2 == pair ? of_row(x, part, 0) : shared_address(x.zeros());
  }
  __device__ __forceinline__ void load(uint32_t b[4], int tile) const {
    load_matrices(b, address + tile * kStep);
  }

 private:
  __device__ __forceinline__ static uint32_t of_row(const StagedRows<kKind>& x, const Part& part, int row) {
    const int lane = threadIdx.x % 32, plane = lane % kPlanes;
    return shared_address(x.row(row)) + plane * x.stride + part.first_tile * kStep + 16 * (lane / 8);
  }
};

inline constexpr int kQuad = 4;  // tiles

// The sums over a part's tiles come in this order for any number of rows: four sums, each over every fourth
// tile, then (first + second) + (third + fourth).
__device__ __forceinline__ float sum_of_quad(const float of_tile[kQuad][2], int row) {
  return (of_tile[0][row] + of_tile[1][row]) + (of_tile[2][row] + of_tile[3][row]);
}

// One row of x: for each of four tiles its planes stand in another pair of columns, so that the tiles' sums
// come out in different lanes, and scales enter once for four tiles: lane 4 i + t has tile t of four. In the
// end acc[k] is row i + 8 k.
template <TileKind kKind>
__device__ __forceinline__ void dot_one_row(float acc[2], const Part& part, const StagedRows<kKind>& x) {
  constexpr int kWeights = tile_weight_bytes(kKind), kScales = tile_scale_bytes(kKind);
  const int t = threadIdx.x % kQuad;
  const Operand<kKind> operands[kQuad] = {{x, part, 0, 0}, {x, part, 0, 1}, {x, part, 0, 2}, {x, part, 0, 3}};
#pragma unroll
  for (int first = 0; first < kPartTiles; first += kQuad) {
    if (first >= part.tiles) break;
    QuantisedSums<kKind> sums;
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {  // what lies behind a part's last tile goes to lanes that drop it
      uint32_t b[4];
      operands[k].load(b, first + k);
      sums.multiply(part.shared + (first + k) * kWeights, b);
    }
    if (first + t < part.tiles) {
      sums.add_to(acc, part.shared + kPartTiles * kWeights + (first + t) * kScales,
                  x.sums[part.first_tile + first + t]);
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    acc[k] += __shfl_xor_sync(0xffffffffu, acc[k], 1);
    acc[k] += __shfl_xor_sync(0xffffffffu, acc[k], 2);
  }
}

// Rows first .. first + 3 of x: acc[k] is row i + 8 k of the weights, row first + t of x.
template <TileKind kKind>
__device__ __forceinline__ void dot_rows(float acc[2], const Part& part, const StagedRows<kKind>& x,
                                         int first_row) {
  constexpr int kWeights = tile_weight_bytes(kKind), kScales = tile_scale_bytes(kKind);
  const Operand<kKind> operand(x, part, first_row);
  const GroupSums* of_group =
      x.sums + min(first_row + static_cast<int>(threadIdx.x % 4), x.count - 1) * x.groups + part.first_tile;
  float of_tile[kQuad][2] = {};
  for (int first = 0; first < part.tiles; first += kQuad) {
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      const int tile = first + k;
      if (tile >= part.tiles) break;
      uint32_t b[4];
      operand.load(b, tile);
      QuantisedSums<kKind> sums;
      sums.multiply(part.shared + tile * kWeights, b);
      sums.add_to(of_tile[k], part.shared + kPartTiles * kWeights + tile * kScales, of_group[tile]);
    }
  }
  acc[0] = sum_of_quad(of_tile, 0);
  acc[1] = sum_of_quad(of_tile, 1);
}

// bf16 weights, up to eight rows: acc[s][k] is row i + 8 k of the weights, row 2 t + s of x.
__device__ __forceinline__ void dot_bf16_rows(float acc[2][2], const Part& part,
                                              const StagedRows<TileKind::kBf16>& x) {
  const Operand<TileKind::kBf16> operand(x, part, 0);
  acc[0][0] = acc[0][1] = acc[1][0] = acc[1][1] = 0;
  for (int tile = 0; tile < part.tiles; ++tile) {
    uint32_t b[8];
    load_matrices(b, operand.address + tile * operand.kStep);
    load_matrices(b + 4, operand.address + tile * operand.kStep + operand.kStep / 2);
    dot_bf16(acc, part.shared + tile * tile_weight_bytes(TileKind::kBf16), b);
  }
}

// The sums of a part's 16 rows and all rows of x. Waits for the warp's own copies, but for the latest
// `kLater` fetches. acc[s] belongs to rows 4 s + t of x (bf16 weights: acc[0] and acc[1] to rows 2 t and 2 t
// + 1).
template <TileKind kKind, int kLater = 0>
__device__ __forceinline__ void dot_part(float acc[2][2], const Part& part, const StagedRows<kKind>& x) {
  copy_async_wait<kLater>();
  __syncwarp();
  if constexpr (!has_planes(kKind)) {
    dot_bf16_rows(acc, part, x);
  } else if (x.count == 1) {
    dot_one_row(acc[0], part, x);
  } else {
    dot_rows(acc[0], part, x, 0);
    if (x.count > 4) dot_rows(acc[1], part, x, 4);
  }
}

// The sums of the block's warps, [warp][row of x][row of the tile]; written by each warp.
template <TileKind kKind>
__device__ __forceinline__ void store_part(float* sums, const float acc[2][2], int warp) {
  const int lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
  float* to = sums + warp * kFewRows * kTileRows + i;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int row = has_planes(kKind) ? 4 * s + t : 2 * t + s;
    to[row * kTileRows] = acc[s][0];
    to[row * kTileRows + 8] = acc[s][1];
  }
}

}  // namespace weir::cuda
