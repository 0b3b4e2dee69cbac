// linear, many rows: out = x W^T on the tensor cores (wgmma), for dense matrices and, through a tile map, for
// experts.
//
// The weights are the left operand, in registers: a tile of weights lies in memory as the instruction takes
// it, so one 16-byte load a lane brings 16 x 64 weights, which are expanded to bf16, used and dropped. Rows
// of x are the right operand, in shared memory. A block has 256 rows of W (four groups of four warps, 64
// each) and up to 160 rows of x; it multiplies by 32, 64, 96, 128 or 160 of them, whichever holds what there
// is. Columns go by in 64s through a ring of stages filled by asynchronous copies; a step of 16 columns is
// expanded while the one before is multiplied. Bytes: W once for each block's rows of x, mostly from L2.
// Rounding: s q + b to bf16 once, x is bf16, sums float32 in order of the columns; so a row's result does not
// depend on its neighbours. Ceiling: the wgmma rate; with few rows, memory bandwidth.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tile_ring.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace weir::cuda {
namespace {

// The rows of x in a block, at most: wide blocks hold what a prefill chunk of 4,096 gives nearly every
// expert; narrow ones leave room for a second block on the multiprocessor, where experts have few rows each
// and the weights' way from memory is what takes time.
constexpr int kWide = 160;
constexpr int kNarrow = 32;
constexpr int kDense = 128;  // of a wide block, where rows are no expert's

enum class Target { kBf16, kFloat, kAdd, kActivated };

struct Params {
  TileMatrix w;             // of one expert where there are several
  const __nv_bfloat16* in;  // [*, cols]
  void* out;                // [*, out_cols]
  const int32_t* order;     // experts: which row of the result is row i
  const ExpertTile* tiles;  // experts: the pieces, else null
  const int32_t* tile_count;
  int32_t rows;
  int32_t out_cols;
  int32_t rows_per_input;  // experts: `slots` results share a row of `in`, else 1
  int32_t piece_rows;      // of x in a block
};

// Of a block: which expert's weights, and which rows.
struct Piece {
  int expert;
  int first;
  int rows;
};

// A block's result as bf16 in shared memory: rows of x, each with the block's columns, 16 bytes more than a
// multiple of 128 apart. The accumulators hold it the other way round.
template <Target kTarget, int kWidth>
__device__ __forceinline__ void stage_result(uint32_t shared, int stride, const float acc[kWidth / 8][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, matrix = lane / 8;
  if constexpr (kTarget == Target::kActivated) {  // eight neurons a warp
#pragma unroll
    for (int n = 0; n < kWidth / 8; n += 4) {
      uint32_t v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        v[k] = pack_bf16(silu(acc[n + k][0]) * acc[n + k][2], silu(acc[n + k][1]) * acc[n + k][3]);
      }
      store_matrices_transposed(shared + (8 * (n + matrix) + lane % 8) * stride + 16 * warp, v);
    }
  } else {
#pragma unroll
    for (int n = 0; n < kWidth / 8; n += 2) {
      const uint32_t v[4] = {pack_bf16(acc[n][0], acc[n][1]), pack_bf16(acc[n][2], acc[n][3]),
                             pack_bf16(acc[n + 1][0], acc[n + 1][1]),
                             pack_bf16(acc[n + 1][2], acc[n + 1][3])};
      store_matrices_transposed(
          shared + (8 * (n + matrix / 2) + lane % 8) * stride + 32 * warp + 16 * (matrix % 2), v);
    }
  }
}

// From there to global memory, whole rows; 16 bytes at a time where rows are aligned.
__device__ __forceinline__ void copy_result(const Params& p, const char* shared, int stride, int first_col,
                                            int cols, const int32_t* out_rows, int width) {
  auto* out = static_cast<__nv_bfloat16*>(p.out);
  const int each = p.out_cols % 8 == 0 ? 8 : 1, pieces = cols / each;
  for (int i = threadIdx.x; i < width * pieces; i += kThreads) {
    const int r = i / pieces, col = i % pieces * each;
    if (out_rows[r] < 0 || first_col + col >= p.out_cols) continue;
    const char* from = shared + r * stride + 2 * col;
    __nv_bfloat16* to = out + static_cast<size_t>(out_rows[r]) * p.out_cols + first_col + col;
    if (each == 8) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      *to = *reinterpret_cast<const __nv_bfloat16*>(from);
    }
  }
}

// float32 results go straight to memory: eight lanes write 32 contiguous bytes. What is added to is asked for
// 32 values at a time.
template <Target kTarget, int kWidth>
__device__ __forceinline__ void store_floats(const Params& p, int row_tile, const int32_t* out_rows,
                                             float acc[kWidth / 8][4]) {
  constexpr int kAtOnce = kWidth / 8 < 8 ? kWidth / 8 : 8;
  const int lane = threadIdx.x % 32, first = kTileRows * row_tile + lane / 4;
#pragma unroll
  for (int begin = 0; begin < kWidth / 8; begin += kAtOnce) {
    const auto for_all = [&](auto visit) {
#pragma unroll
      for (int n = begin; n < begin + kAtOnce && n < kWidth / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int out_row = out_rows[8 * n + 2 * (lane % 4) + c % 2], col = first + c / 2 * 8;
          if (out_row < 0 || col >= p.out_cols) continue;
          visit(acc[n][c], static_cast<float*>(p.out) + static_cast<size_t>(out_row) * p.out_cols + col);
        }
      }
    };
    if constexpr (kTarget == Target::kAdd) for_all([](float& value, float* to) { value += *to; });
    for_all([](float& value, float* to) { *to = value; });
  }
}

// The block's product, kWidth rows of x wide, and its result.
//
// While the tensor cores have one step of 16 columns, the next is expanded, across turns too: the last step
// of a turn runs while the next stage is waited for. A stage is refilled in the turn after its own, when the
// barrier says that all warps have waited for its products.
template <TileKind kKind, Target kTarget, int kTokens, int kWidth>
__device__ __forceinline__ void multiply(const Params& p, const Ring<kKind, kTokens>& ring,
                                         Loader<kKind, kTokens>& loader, int row_tile,
                                         const int32_t* out_rows) {
  constexpr int kStages = Ring<kKind, kTokens>::kStages, kAhead = kStages - 2;
  const int groups = p.w.groups(), warp = threadIdx.x / 32;
  float acc[kWidth / 8][4] = {};
  uint32_t a[2][4];
  ExpandedTile<kKind> tile;
  const auto turn_to = [&](int g) {
    copy_async_wait<kAhead - 1>();
    publish_shared();
    __syncthreads();
    loader.template fetch<kWidth>(ring, (g + kAhead) % kStages);
    tile.load(ring.weights(g % kStages) + warp * tile_weight_bytes(kKind),
              ring.scales(g % kStages) + warp * tile_scale_bytes(kKind));
    tile.expand(a[0], 0);
  };
  for (int g = 0; g < kAhead; ++g) loader.template fetch<kWidth>(ring, g);
  turn_to(0);
  for (int g = 0; g < groups; ++g) {
    const uint64_t rows = describe_rows(shared_address(ring.rows(g % kStages)));
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      products_begin();
      Product<kWidth>::add(acc, a[step % 2], next_columns(rows, step));
      products_commit();
      products_wait<1>();
      if (step < 3) {
        tile.expand(a[(step + 1) % 2], step + 1);
      } else if (g + 1 < groups) {
        turn_to(g + 1);
      }
    }
    products_wait<0>();
  }
  if constexpr (kTarget == Target::kFloat || kTarget == Target::kAdd) {
    store_floats<kTarget, kWidth>(p, row_tile + warp, out_rows, acc);
  } else {
    constexpr int kCols = kRowTiles * (kTarget == Target::kActivated ? 8 : kTileRows),
                  kStride = 2 * kCols + 16;
    static_assert(kTokens * kStride <= Ring<kKind, kTokens>::kBytes - 1024);
    __syncthreads();  // the ring has been read
    stage_result<kTarget, kWidth>(shared_address(ring.memory), kStride, acc);
    __syncthreads();
    copy_result(p, ring.memory, kStride, blockIdx.x * kCols, kCols, out_rows, kWidth);
  }
}

template <TileKind kKind, Target kTarget, int kTokens>
__global__ void __launch_bounds__(kThreads, kTokens == kNarrow ? 2 : 1) linear_many_kernel(const Params p) {
  extern __shared__ char memory[];
  __shared__ int32_t out_rows[kTokens];
  wait_for_previous();
  let_next_start();

  Piece piece{0, static_cast<int>(blockIdx.y) * p.piece_rows, 0};
  if (p.tiles != nullptr) {
    if (static_cast<int>(blockIdx.y) >= *p.tile_count) return;
    const ExpertTile tile = p.tiles[blockIdx.y];
    piece = {tile.expert, tile.first, tile.rows};
  } else {
    piece.rows = min(p.piece_rows, p.rows - piece.first);
  }
  const auto row_of = [&](int r) {
    if (r >= piece.rows) return -1;
    return p.order != nullptr ? p.order[piece.first + r] : piece.first + r;
  };
  for (int r = threadIdx.x; r < kTokens; r += kThreads) out_rows[r] = row_of(r);

  const Ring<kKind, kTokens> ring(memory);
  const int row_tile = blockIdx.x * kRowTiles;
  Loader<kKind, kTokens> loader(
      p.w, static_cast<size_t>(piece.expert) * p.w.row_tiles() * p.w.groups(), row_tile, [&](int r) {
        const int row = row_of(r);
        return row >= 0 ? p.in + static_cast<size_t>(row / p.rows_per_input) * p.w.cols : nullptr;
      });
  // The narrowest product that holds the rows.
  const auto multiply_as = [&]<int kWidth> {
    multiply<kKind, kTarget, kTokens, kWidth>(p, ring, loader, row_tile, out_rows);
  };
  if constexpr (kTokens > 128) {
    if (piece.rows > 128) return multiply_as.template operator()<kTokens>();
  }
  if constexpr (kTokens > 32) {
    if (piece.rows > 96) return multiply_as.template operator()<128>();
    if (piece.rows > 64) return multiply_as.template operator()<96>();
    if (piece.rows > 32) return multiply_as.template operator()<64>();
  }
  multiply_as.template operator()<32>();
}

template <TileKind kKind, Target kTarget, int kTokens>
void launch(LaunchQueue& queue, const Params& p, int64_t pieces) {
  Shape shape;
  shape.blocks = dim3((p.w.row_tiles() + kRowTiles - 1) / kRowTiles, static_cast<unsigned>(pieces));
  shape.threads = kThreads;
  shape.shared = Ring<kKind, kTokens>::kBytes;
  queue.launch(linear_many_kernel<kKind, kTarget, kTokens>, shape, p);
}

template <Target kTarget, int kTokens = kDense>
void launch(LaunchQueue& queue, const Params& p, int64_t pieces) {
  switch (p.w.kind) {
    case TileKind::kQ4:
      return launch<TileKind::kQ4, kTarget, kTokens>(queue, p, pieces);
    case TileKind::kQ8:
      return launch<TileKind::kQ8, kTarget, kTokens>(queue, p, pieces);
    case TileKind::kBf16:
      return launch<TileKind::kBf16, kTarget, kTokens>(queue, p, pieces);
  }
}

template <Target kTarget>
void launch_experts(LaunchQueue& queue, const Params& p, const Grouping& grouping) {
  if (grouping.tile_rows == kNarrow) return launch<kTarget, kNarrow>(queue, p, grouping.max_tiles);
  launch<kTarget, kWide>(queue, p, grouping.max_tiles);
}

}  // namespace

int64_t expert_tile_rows(int64_t assignments, int64_t experts) {
  return assignments <= experts * (kNarrow - 8) ? kNarrow : kWide;
}

void linear_many(LaunchQueue& queue, const LinearCall& call) {
  Params p{};
  p.w = call.w;
  p.in = static_cast<const __nv_bfloat16*>(call.in);
  p.out = call.out;
  p.rows = static_cast<int32_t>(call.rows);
  p.out_cols = call.w.rows;
  p.rows_per_input = 1;
  // Narrower pieces where there would be blocks for few of the multiprocessors.
  constexpr int64_t kEnough = 96;
  const int64_t blocks = (call.w.row_tiles() + kRowTiles - 1) / kRowTiles;
  int64_t tokens = kDense;
  while (tokens > 32 && blocks * ((call.rows + tokens - 1) / tokens) < kEnough) tokens /= 2;
  p.piece_rows = static_cast<int32_t>(tokens);
  const int64_t pieces = (call.rows + tokens - 1) / tokens;
  switch (call.output) {
    case Output::kBf16:
      return launch<Target::kBf16>(queue, p, pieces);
    case Output::kFloat:
      return launch<Target::kFloat>(queue, p, pieces);
    case Output::kAdd:
      return launch<Target::kAdd>(queue, p, pieces);
  }
}

void experts_up_many(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call) {
  Params p{};
  p.w = call.experts.up;
  p.in = call.normed;
  p.out = call.activated;
  p.order = grouping.order;
  p.tiles = grouping.tiles;
  p.tile_count = grouping.tile_count;
  p.out_cols = static_cast<int32_t>(call.experts.intermediate);
  p.rows_per_input = static_cast<int32_t>(call.slots);
  launch_experts<Target::kActivated>(queue, p, grouping);
}

void experts_down_many(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call,
                       __nv_bfloat16* contributions) {
  Params p{};
  p.w = call.experts.down;
  p.in = call.activated;
  p.out = contributions;
  p.order = grouping.order;
  p.tiles = grouping.tiles;
  p.tile_count = grouping.tile_count;
  p.out_cols = call.experts.down.rows;
  p.rows_per_input = 1;
  launch_experts<Target::kBf16>(queue, p, grouping);
}

}  // namespace weir::cuda
