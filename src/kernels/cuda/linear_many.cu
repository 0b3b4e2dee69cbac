// linear, many rows: out = x W^T on the tensor cores (mma.sync m16n8k16), for dense matrices and, through a
// tile map, for experts.
//
// The weights are the left operand (128 of their rows a block), rows of x the right one (kTokens a block): a
// tile of weights lies in memory as the instruction takes it, so one 16-byte load a lane brings 16 x 64
// weights, which are expanded to bf16 in registers, used and dropped. Eight warps: four times 32 rows of W,
// twice kTokens / 2 rows of x. Columns go by in 64s through a ring of stages filled by asynchronous copies.
// Bytes: W once for each kTokens rows of x, mostly from L2. Rounding: s q + b to bf16 once, x is bf16, sums
// float32 in order of the columns; so a row's result does not depend on kTokens or on its neighbours.
// Ceiling: the mma.sync rate, about 60 % of wgmma's.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tiles.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowTiles = 8;  // of W in a block
constexpr int kStages = 4;

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
  int32_t unused;
};

// Of a block: which expert's weights, and which rows.
struct Piece {
  int expert;
  int first;
  int rows;
};

template <TileKind kKind, int kTokens>
struct Stage {
  static constexpr int kWeights = kRowTiles * tile_weight_bytes(kKind);
  static constexpr int kScales = kRowTiles * tile_scale_bytes(kKind);
  static constexpr int kRows = kTokens * kTileCols * 2;
  static constexpr int kBytes = kWeights + kScales + kRows;
};

// The matrix and rows of a block, and how a stage is filled.
template <TileKind kKind, int kTokens>
struct Loader {
  static constexpr int kRowsPerThread = (kTokens * 8 + kThreads - 1) / kThreads;
  using S = Stage<kKind, kTokens>;

  TileMatrix w;
  size_t first_tile;  // of the expert
  int row_tile;
  const __nv_bfloat16* rows[kRowsPerThread];

  __device__ __forceinline__ void fetch(char* stage, int group) const {
    const uint32_t to = shared_address(stage);
    constexpr int kPerTile = tile_weight_bytes(kKind);
#pragma unroll
    for (int at = 16 * threadIdx.x; at < S::kWeights; at += 16 * kThreads) {
      const int r = row_tile + at / kPerTile;
      const bool real = r < w.row_tiles();
      const size_t tile = first_tile + static_cast<size_t>(real ? r : 0) * w.groups() + group;
      copy_async_or_zero(to + at, w.weights + tile * kPerTile + at % kPerTile, real);
    }
    if constexpr (S::kScales > 0) {
      constexpr int kScale = tile_scale_bytes(kKind);
      for (int at = 16 * threadIdx.x; at < S::kScales; at += 16 * kThreads) {
        const int r = row_tile + at / kScale;
        const bool real = r < w.row_tiles();
        const size_t tile = first_tile + static_cast<size_t>(real ? r : 0) * w.groups() + group;
        copy_async_or_zero(to + S::kWeights + at, w.scales + tile * kScale + at % kScale, real);
      }
    }
    const int chunk = threadIdx.x % 8, col = group * kTileCols + 8 * chunk;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int r = threadIdx.x / 8 + i * (kThreads / 8);
      if (r >= kTokens) continue;
      const bool real = rows[i] != nullptr && col < w.cols;
      const __nv_bfloat16* from = real ? rows[i] + col : reinterpret_cast<const __nv_bfloat16*>(w.weights);
      copy_async_or_zero(to + S::kWeights + S::kScales + 128 * r + 16 * (chunk ^ (r % 8)), from, real);
    }
  }
};

// acc += the stage's weights times its rows, for one warp.
template <TileKind kKind, int kTokens>
__device__ __forceinline__ void multiply_stage(float acc[2][kTokens / 16][4], const char* stage,
                                               int warp_rows, int warp_tokens, int count) {
  using S = Stage<kKind, kTokens>;
  const int lane = threadIdx.x % 32;
  ExpandedTile<kKind> tiles[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int tile = 2 * warp_rows + r;
    tiles[r].load(stage + tile * tile_weight_bytes(kKind),
                  stage + S::kWeights + tile * tile_scale_bytes(kKind));
  }
  // Two blocks of eight rows of x at once, 16 columns each; the two halves of the warps take turns at 16
  // rows.
  const uint32_t rows =
      shared_address(stage + S::kWeights + S::kScales) + 128 * (16 * warp_tokens + lane / 16 * 8 + lane % 8);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    uint32_t a[2][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) tiles[r].expand(a[r], step);
    const uint32_t column = 16 * ((2 * step + lane / 8 % 2) ^ (lane % 8));
#pragma unroll
    for (int n = 0; n < kTokens / 16; n += 2) {
      if (16 * (n + warp_tokens) >= count) break;
      uint32_t b[4];
      load_matrices(b, rows + 2048 * n + column);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        multiply_add(acc[r][n], a[r], b[0], b[1]);
        multiply_add(acc[r][n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// One column of a tile's result, for rows i and i + 8 of W.
template <Target kTarget>
__device__ __forceinline__ void store(const Params& p, int row_tile, int out_row, float low, float high) {
  const int i = threadIdx.x % 32 / 4;
  const size_t at = static_cast<size_t>(out_row) * p.out_cols;
  if constexpr (kTarget == Target::kActivated) {
    const int neuron = 8 * row_tile + i;
    if (neuron < p.out_cols) {
      static_cast<__nv_bfloat16*>(p.out)[at + neuron] = __float2bfloat16_rn(silu(low) * high);
    }
    return;
  }
  const float values[2] = {low, high};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = kTileRows * row_tile + i + 8 * k;
    if (row >= p.out_cols) continue;
    if constexpr (kTarget == Target::kBf16) {
      static_cast<__nv_bfloat16*>(p.out)[at + row] = __float2bfloat16_rn(values[k]);
    } else if constexpr (kTarget == Target::kFloat) {
      static_cast<float*>(p.out)[at + row] = values[k];
    } else {
      static_cast<float*>(p.out)[at + row] += values[k];
    }
  }
}

template <TileKind kKind, int kTokens, Target kTarget>
__global__ void __launch_bounds__(kThreads, kKind == TileKind::kQ4 ? 2 : 1)
    linear_many_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int32_t out_rows[kTokens];
  using S = Stage<kKind, kTokens>;
  wait_for_previous();
  let_next_start();

  Piece piece{0, static_cast<int>(blockIdx.y) * kTokens, 0};
  if (p.tiles != nullptr) {
    if (static_cast<int>(blockIdx.y) >= *p.tile_count) return;
    const ExpertTile tile = p.tiles[blockIdx.y];
    piece = {tile.expert, tile.first, tile.rows};
  } else {
    piece.rows = min(kTokens, p.rows - piece.first);
  }
  const auto row_of = [&](int r) {
    if (r >= piece.rows) return -1;
    return p.order != nullptr ? p.order[piece.first + r] : piece.first + r;
  };
  for (int r = threadIdx.x; r < kTokens; r += kThreads) out_rows[r] = row_of(r);

  Loader<kKind, kTokens> loader;
  loader.w = p.w;
  loader.row_tile = blockIdx.x * kRowTiles;
  loader.first_tile = static_cast<size_t>(piece.expert) * p.w.row_tiles() * p.w.groups();
#pragma unroll
  for (int i = 0; i < Loader<kKind, kTokens>::kRowsPerThread; ++i) {
    const int r = threadIdx.x / 8 + i * (kThreads / 8), row = row_of(r);
    loader.rows[i] =
        r < kTokens && row >= 0 ? p.in + static_cast<size_t>(row / p.rows_per_input) * p.w.cols : nullptr;
  }

  const int groups = p.w.groups(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float acc[2][kTokens / 16][4] = {};
  for (int g = 0; g < kStages - 1; ++g) {
    if (g < groups) loader.fetch(memory + g * S::kBytes, g);
    copy_async_commit();
  }
  for (int g = 0; g < groups; ++g) {
    copy_async_wait<kStages - 2>();
    __syncthreads();
    const int ahead = g + kStages - 1;
    if (ahead < groups) loader.fetch(memory + ahead % kStages * S::kBytes, ahead);
    copy_async_commit();
    multiply_stage<kKind, kTokens>(acc, memory + g % kStages * S::kBytes, warp % 4, warp / 4, piece.rows);
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row_tile = loader.row_tile + 2 * (warp % 4) + r;
#pragma unroll
    for (int n = 0; n < kTokens / 16; ++n) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int out_row = out_rows[16 * (n / 2 * 2 + warp / 4) + 8 * (n % 2) + 2 * (lane % 4) + k];
        if (out_row >= 0) store<kTarget>(p, row_tile, out_row, acc[r][n][k], acc[r][n][2 + k]);
      }
    }
  }
}

template <TileKind kKind, int kTokens, Target kTarget>
void launch(LaunchQueue& queue, const Params& p, int64_t pieces) {
  Shape shape;
  shape.blocks = dim3((p.w.row_tiles() + kRowTiles - 1) / kRowTiles, static_cast<unsigned>(pieces));
  shape.threads = kThreads;
  shape.shared = kStages * Stage<kKind, kTokens>::kBytes;
  queue.launch(linear_many_kernel<kKind, kTokens, kTarget>, shape, p);
}

// 4-bit matrices have three widths; the others, for small and unusual checkpoints, one.
template <Target kTarget>
void launch(LaunchQueue& queue, const Params& p, int64_t tokens, int64_t pieces) {
  if (p.w.kind == TileKind::kQ8) return launch<TileKind::kQ8, 64, kTarget>(queue, p, pieces);
  if (p.w.kind == TileKind::kBf16) return launch<TileKind::kBf16, 64, kTarget>(queue, p, pieces);
  if (tokens == 32) return launch<TileKind::kQ4, 32, kTarget>(queue, p, pieces);
  if (tokens == 64) return launch<TileKind::kQ4, 64, kTarget>(queue, p, pieces);
  launch<TileKind::kQ4, 128, kTarget>(queue, p, pieces);
}

int64_t tokens_of_block(TileKind kind, int64_t rows) {
  if (kind != TileKind::kQ4) return 64;
  return rows <= 32 ? 32 : rows <= 256 ? 64 : 128;
}

}  // namespace

int64_t expert_tile_rows(TileKind kind, int64_t rows_per_expert) {
  return rows_per_expert > 64 && kind == TileKind::kQ4 ? 128 : tokens_of_block(kind, rows_per_expert);
}

void linear_many(LaunchQueue& queue, const LinearCall& call) {
  Params p{};
  p.w = call.w;
  p.in = static_cast<const __nv_bfloat16*>(call.in);
  p.out = call.out;
  p.rows = static_cast<int32_t>(call.rows);
  p.out_cols = call.w.rows;
  p.rows_per_input = 1;
  const int64_t tokens = tokens_of_block(p.w.kind, call.rows);
  const int64_t pieces = (call.rows + tokens - 1) / tokens;
  switch (call.output) {
    case Output::kBf16:
      return launch<Target::kBf16>(queue, p, tokens, pieces);
    case Output::kFloat:
      return launch<Target::kFloat>(queue, p, tokens, pieces);
    case Output::kAdd:
      return launch<Target::kAdd>(queue, p, tokens, pieces);
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
  launch<Target::kActivated>(queue, p, grouping.tile_rows, grouping.max_tiles);
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
  launch<Target::kBf16>(queue, p, grouping.tile_rows, grouping.max_tiles);
}

}  // namespace weir::cuda
