// The stages in shared memory that a many-row product's operands pass through (linear_many.cu).
#pragma once

#include "kernels/cuda/tiles.cuh"

namespace weir::cuda {

inline constexpr int kThreads = 512;
inline constexpr int kRowTiles = 16;  // of W in a block, one a warp

// Shared memory: the stages' rows of x, then their weights, then their scales.
template <TileKind kKind, int kTokens>
struct Ring {
  static constexpr int kStages = kKind == TileKind::kBf16 ? 4 : 5;
  static constexpr int kRows = kTokens * kTileCols * 2;
  static constexpr int kWeights = kRowTiles * tile_weight_bytes(kKind);
  static constexpr int kScales = kRowTiles * tile_scale_bytes(kKind);
  static constexpr int kBytes = kStages * (kRows + kWeights + kScales) + 1024;

  char* memory;  // at a multiple of 1,024 bytes, which the products' addressing needs

  __device__ __forceinline__ explicit Ring(char* shared)
      : memory(shared + (1024 - shared_address(shared) % 1024) % 1024) {}
  __device__ __forceinline__ char* rows(int stage) const { return memory + stage * kRows; }
  __device__ __forceinline__ char* weights(int stage) const {
    return memory + kStages * kRows + stage * kWeights;
  }
  __device__ __forceinline__ char* scales(int stage) const {
    return memory + kStages * (kRows + kWeights) + stage * kScales;
  }
};

// Fills the stages, group after group: what a thread copies moves on by a constant, so that a turn costs it
// few instructions.
template <TileKind kKind, int kTokens>
struct Loader {
  static constexpr int kPerTile = tile_weight_bytes(kKind), kScalePerTile = tile_scale_bytes(kKind);
  static constexpr int kCopies = kRowTiles * kPerTile / (16 * kThreads);  // of weights
  static constexpr int kRows = (kTokens * 8 + kThreads - 1) / kThreads;   // of x
  static constexpr int kRowStep = kThreads / 8;

  const char* weights;
  const char* scales;
  const char* rows[kRows];
  uint32_t scale_bytes;       // 16, or 0 where there is nothing to copy
  uint32_t row_bytes[kRows];  // likewise
  size_t copy_stride;         // between a thread's copies of weights
  int first_row_tile;         // of the matrix, that the thread's first copy is of
  int row_tiles;
  int group = 0;
  int groups;
  int cols;

  // Row tile `row_tile` of the expert that starts at tile `first_tile`; `row_of(r)` is the address of row r
  // of x, or null.
  template <class RowOf>
  __device__ __forceinline__ Loader(const TileMatrix& w, size_t first_tile, int row_tile, const RowOf& row_of)
      : scales(w.weights), scale_bytes(0), row_tiles(w.row_tiles()), groups(w.groups()), cols(w.cols) {
    const int tile = 16 * threadIdx.x / kPerTile;
    first_row_tile = row_tile + tile;
    const auto tile_at = [&](int r) { return first_tile + static_cast<size_t>(r) * groups; };
    weights = w.weights + tile_at(first_row_tile) * kPerTile + 16 * threadIdx.x % kPerTile;
    copy_stride = static_cast<size_t>(16 * kThreads) * groups;
    if constexpr (kScalePerTile > 0) {
      const int of = 16 * threadIdx.x / kScalePerTile;
      if (of < kRowTiles && row_tile + of < row_tiles) {
        scales = w.scales + tile_at(row_tile + of) * kScalePerTile + 16 * threadIdx.x % kScalePerTile;
        scale_bytes = 16;
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const __nv_bfloat16* row = row_of(static_cast<int>(threadIdx.x) / 8 + i * kRowStep);
      row_bytes[i] = row != nullptr ? 16 : 0;
      rows[i] = row != nullptr ? reinterpret_cast<const char*>(row + 8 * (threadIdx.x % 8)) : w.weights;
    }
  }

  // The next group, for a product that is kWidth rows of x wide.
  template <int kWidth>
  __device__ __forceinline__ void fetch(const Ring<kKind, kTokens>& ring, int stage) {
    if (group < groups) {
      const uint32_t to_weights = shared_address(ring.weights(stage)) + 16 * threadIdx.x;
#pragma unroll
      for (int c = 0; c < kCopies; ++c) {
        const bool real = first_row_tile + c * (kRowTiles / kCopies) < row_tiles;
        copy_async_of(to_weights + 16 * kThreads * c, weights + c * copy_stride, real ? 16 : 0);
      }
      weights += kPerTile;
      if constexpr (kScalePerTile > 0) {
        if (16 * threadIdx.x < kRowTiles * kScalePerTile) {
          copy_async_of(shared_address(ring.scales(stage)) + 16 * threadIdx.x, scales, scale_bytes);
          scales += kScalePerTile;
        }
      }
      const int chunk = threadIdx.x % 8, row = threadIdx.x / 8;
      const uint32_t to_rows = shared_address(ring.rows(stage)) + 128 * row + 16 * (chunk ^ (row % 8));
      const bool in_cols = group * kTileCols + 8 * chunk < cols;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (row + i * kRowStep >= kWidth) break;
        copy_async_of(to_rows + 128 * kRowStep * i, rows[i], in_cols ? row_bytes[i] : 0);
        rows[i] += 2 * kTileCols;
      }
      ++group;
    }
    copy_async_commit();
  }
};

}  // namespace weir::cuda
