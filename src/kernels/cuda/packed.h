// Weights in GPU memory.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/kernels.h"
#include "kernels/weights.h"

namespace weir::cuda {

struct TileLinear final : Linear {
  int64_t rows() const override { return tiles.rows; }
  int64_t cols() const override { return tiles.cols; }
  uint64_t bytes() const override { return memory.bytes(); }
  std::string kernel() const override;

  TileMatrix tiles;
  Buffer memory;
};

struct TileExperts final : Experts {
  int64_t count() const override { return tiles.count; }
  int64_t hidden() const override { return tiles.up.cols; }
  int64_t intermediate() const override { return tiles.intermediate; }
  uint64_t up_bytes(int64_t) const override { return up_memory.bytes() / static_cast<uint64_t>(tiles.count); }
  uint64_t down_bytes(int64_t) const override {
    return down_memory.bytes() / static_cast<uint64_t>(tiles.count);
  }
  std::string kernel() const override;

  ExpertTiles tiles;
  Buffer up_memory;
  Buffer down_memory;
};

struct RawEmbedding final : Embedding {
  int64_t rows() const override { return matrix.rows; }
  int64_t cols() const override { return matrix.cols; }
  uint64_t row_bytes() const override { return memory.bytes() / static_cast<uint64_t>(matrix.rows); }

  RawMatrix matrix;
  Buffer memory;
};

}  // namespace weir::cuda
