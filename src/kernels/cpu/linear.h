// Stacked matrices and their products.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/pack.h"
#include "kernels/steps.h"

namespace weir::cpu {

// The parts lie one after the other in `memory`; each is padded to whole blocks of its own.
class PackedLinear final : public Linear {
 public:
  static Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use use,
                                              const CpuKernels& kernels, std::string isa, ThreadPool& pool);

  int64_t rows() const override;
  int64_t cols() const override { return parts_.front().cols; }
  uint64_t bytes() const override;
  std::string kernel() const override;

  std::span<const PackedMatrix> parts() const { return parts_; }
  unsigned kinds() const;

 private:
  PackedLinear() = default;

  std::vector<PackedMatrix> parts_;
  Buffer memory_;
  std::string isa_;
};

// "avx512-vnni/q4_i8 bf16_f32": the instruction set and the distinct kernels of the matrices.
std::string kernel_names(const std::string& isa, std::span<const PackedMatrix> matrices);

// Rows of a tile of `w` at most.
inline int64_t max_tile(const PackedMatrix& w, const CpuKernels& kernels) {
  return w.int8_activations ? kernels.int8.max_tile : kernels.floats.max_tile;
}

// Holds what the products of this thread with lists of `count` rows need, as long as it lives.
class ProductScope {
 public:
  ProductScope(const CpuKernels& kernels, int64_t count)
      : int8_(kernels.int8.enter != nullptr && count >= kernels.int8.tiles_from ? &kernels.int8 : nullptr) {
    if (int8_ != nullptr) int8_->enter();
  }
  ~ProductScope() {
    if (int8_ != nullptr) int8_->leave();
  }
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

 private:
  const Int8Kernels* int8_;
};

// Tiles of `w` whose activations share the second-level cache.
inline int64_t tiles_in_cache(const PackedMatrix& w, int64_t max_tile) {
  constexpr int64_t kCacheBytes = 512 * 1024;
  return std::max<int64_t>(1, kCacheBytes / (w.cols * max_tile * (w.int8_activations ? 1 : 4)));
}

// f(block, first, n) for these blocks and all tiles [first, first + n) of a list of `count` rows. The tiles
// go in runs of `run`, and a run meets all blocks before the next one does: with a run that fits the cache a
// block is read from memory once for its rows, and once altogether when they are few.
template <class F>
void for_tiles(Range blocks, int64_t count, int64_t max_tile, int64_t run, const F& f) {
  const int64_t tiles = tile_count(count, max_tile);
  for (int64_t first_tile = 0; first_tile < tiles; first_tile += run) {
    const int64_t end_tile = std::min(tiles, first_tile + run);
    for (int64_t b = blocks.begin; b < blocks.end; ++b) {
      for (int64_t t = first_tile; t < end_tile; ++t) {
        const Range rows = tile_rows(count, t, tiles);
        f(b, rows.begin, rows.end - rows.begin);
      }
    }
  }
}

// emit(block, first, count, out) for these blocks of `w` and all tiles of the list at positions
// [position, position + count): out[i * 16 + lane] is the product of the block's row `lane` and row first + i
// of the list.
template <class Emit>
void multiply(const CpuKernels& kernels, const PackedMatrix& w, Range blocks, const Activations& activations,
              int64_t position, int64_t count, const Emit& emit) {
  alignas(64) float out[kLargestTile * kBlockRows];
  const ProductScope scope(kernels, count);
  const int64_t tile = max_tile(w, kernels);
  for_tiles(blocks, count, tile, tiles_in_cache(w, tile), [&](int64_t b, int64_t first, int64_t n) {
    w.product(out, w.block(b), activations.tile(w, position + first, n));
    emit(b, first, n, out);
  });
}

// The same for two matrices of one shape and kind of activations that meet the same rows: emit(block, first,
// count, out of v, out of w).
template <class Emit>
void multiply_pair(const CpuKernels& kernels, const PackedMatrix& v, const PackedMatrix& w, Range blocks,
                   const Activations& activations, int64_t position, int64_t count, const Emit& emit) {
  alignas(64) float out_v[kLargestTile * kBlockRows];
  alignas(64) float out_w[kLargestTile * kBlockRows];
  const ProductScope scope(kernels, count);
  const int64_t tile = max_tile(w, kernels);
  for_tiles(blocks, count, tile, tiles_in_cache(w, tile), [&](int64_t b, int64_t first, int64_t n) {
    v.product(out_v, v.block(b), activations.tile(v, position + first, n));
    w.product(out_w, w.block(b), activations.tile(w, position + first, n));
    emit(b, first, n, out_v, out_w);
  });
}

}  // namespace weir::cpu
