// Laying out weights, once at load: a thread gathers what one lane will load. Bytes: the matrix in and out;
// reads are not coalesced, which loading from a disk or over PCIe hides.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/raw_value.cuh"
#include "kernels/cuda/repack.h"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;

struct Params {
  TileMatrix to;
  RawMatrix source;
  RawMatrix up;       // of gate_up
  int32_t first_row;  // of `to` that row 0 of the source becomes
  int32_t gate_up;
};

// Where row `row` of the packed matrix comes from.
struct Origin {
  const RawMatrix* matrix;
  int row;

  __device__ __forceinline__ bool in(const RawMatrix& m) const { return row >= 0 && row < m.rows; }
};

__device__ __forceinline__ Origin origin_of(const Params& p, int row) {
  if (!p.gate_up) return {&p.source, row - p.first_row};
  const int tile = row / kTileRows, r = row % kTileRows;
  return r < 8 ? Origin{&p.source, 8 * tile + r} : Origin{&p.up, 8 * tile + r - 8};
}

// The two columns of register n of step s.
__device__ __forceinline__ int column_of(int group, int lane, int step, int n) {
  return kTileCols * group + 16 * step + 2 * (lane % 4) + (n < 2 ? 0 : 8);
}

__device__ __forceinline__ uint32_t quantised_or_zero(const Origin& from, int col) {
  return col < from.matrix->cols ? raw_quantised(*from.matrix, from.row, col) : 0;
}
__device__ __forceinline__ float value_or_zero(const Origin& from, int col) {
  return col < from.matrix->cols ? raw_value(*from.matrix, from.row, col) : 0.0f;
}
__device__ __forceinline__ float scale_or_zero(const Origin& from, int col) {
  return col < from.matrix->cols ? raw_scale(*from.matrix, from.row, col) : 0.0f;
}
__device__ __forceinline__ float bias_or_zero(const Origin& from, int col) {
  return col < from.matrix->cols ? raw_bias(*from.matrix, from.row, col) : 0.0f;
}

// Half a lane's share of a tile: row i (which = 0) or i + 8 (which = 1), the even or odd registers. Four bits
// of each value, from bit `shift` on.
__device__ void pack_nibbles(uint32_t* words, const Origin& from, int group, int lane, int which, int shift) {
  for (int step = 0; step < 4; ++step) {
    uint32_t word = 0;
    for (int n = which; n < 4; n += 2) {
      const int col = column_of(group, lane, step, n);
      word |= (quantised_or_zero(from, col) >> shift & 15) << (4 * n) |
              (quantised_or_zero(from, col + 1) >> shift & 15) << (4 * n + 16);
    }
    atomicOr(words + step, word);
  }
}

__device__ void pack_q4(const Params& p, const Origin& from, size_t tile, int group, int lane, int which) {
  auto* words = reinterpret_cast<uint32_t*>(const_cast<char*>(p.to.weights) + tile * 512 + 16 * lane);
  pack_nibbles(words, from, group, lane, which, 0);
  if (lane % 4 > 0) return;
  const int col = kTileCols * group;
  auto* scales = reinterpret_cast<uint32_t*>(const_cast<char*>(p.to.scales) + tile * 64 + 8 * (lane / 4));
  scales[which] = pack_bf16(scale_or_zero(from, col), bias_or_zero(from, col));
}

__device__ void pack_q8(const Params& p, const Origin& from, size_t tile, int group, int lane, int which) {
  char* weights = const_cast<char*>(p.to.weights) + tile * 1024 + 16 * lane;
  pack_nibbles(reinterpret_cast<uint32_t*>(weights), from, group, lane, which, 0);
  pack_nibbles(reinterpret_cast<uint32_t*>(weights + 512), from, group, lane, which, 4);
  if (lane % 4 > 0) return;
  for (int half = 0; half < 2; ++half) {
    const int col = kTileCols * group + 32 * half;
    auto* scales =
        reinterpret_cast<float*>(const_cast<char*>(p.to.scales) + tile * 256 + 128 * half + 16 * (lane / 4));
    scales[2 * which] = scale_or_zero(from, col);
    scales[2 * which + 1] = bias_or_zero(from, col);
  }
}

__device__ void pack_values(const Params& p, const Origin& from, size_t tile, int group, int lane,
                            int which) {
  char* weights = const_cast<char*>(p.to.weights) + tile * 2048 + 16 * lane;
  for (int step = 0; step < 4; ++step) {
    for (int n = which; n < 4; n += 2) {
      const int col = column_of(group, lane, step, n);
      *reinterpret_cast<uint32_t*>(weights + 512 * step + 4 * n) =
          pack_bf16(value_or_zero(from, col), value_or_zero(from, col + 1));
    }
  }
}

// A thread has a lane's share of one row in one tile.
__global__ void __launch_bounds__(kThreads) repack_kernel(const Params p, int first_tile, int64_t items) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= items) return;
  const int lane = static_cast<int>(item % 32), which = static_cast<int>(item / 32 % 2);
  const int groups = p.to.groups(), group = static_cast<int>(item / 64 % groups);
  const int row_tile = first_tile + static_cast<int>(item / 64 / groups);
  const Origin from = origin_of(p, kTileRows * row_tile + lane / 4 + 8 * which);
  if (!from.in(*from.matrix)) return;
  const size_t tile = static_cast<size_t>(row_tile) * groups + group;
  switch (p.to.kind) {
    case TileKind::kQ4:
      return pack_q4(p, from, tile, group, lane, which);
    case TileKind::kQ8:
      return pack_q8(p, from, tile, group, lane, which);
    case TileKind::kBf16:
      return pack_values(p, from, tile, group, lane, which);
  }
}

void launch(LaunchQueue& queue, const Params& p, int first_tile, int end_tile) {
  const int64_t items = static_cast<int64_t>(end_tile - first_tile) * p.to.groups() * 64;
  const auto blocks = static_cast<unsigned>((items + kThreads - 1) / kThreads);
  repack_kernel<<<blocks, kThreads, 0, queue.stream()>>>(p, first_tile, items);
  queue.check(cudaGetLastError(), "packing weights");
}

}  // namespace

void repack_rows(LaunchQueue& queue, const TileMatrix& to, int64_t first_row, const RawMatrix& source) {
  const auto first = static_cast<int>(first_row);
  launch(queue, {to, source, {}, first, 0}, first / kTileRows,
         (first + source.rows + kTileRows - 1) / kTileRows);
}

void repack_gate_up(LaunchQueue& queue, const TileMatrix& to, const RawMatrix& gate, const RawMatrix& up) {
  launch(queue, {to, gate, up, 0, 1}, 0, to.row_tiles());
}

}  // namespace weir::cuda
