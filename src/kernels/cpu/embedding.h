// Token embeddings, kept in the checkpoint's encoding: a row is decoded when it is looked up.
#pragma once

#include <memory>

#include "kernels/steps.h"

namespace weir::cpu {

class EmbeddingTable final : public Embedding {
 public:
  EmbeddingTable(Buffer memory, const Matrix& matrix) : memory_(std::move(memory)), matrix_(matrix) {}

  int64_t rows() const override { return matrix_.rows; }
  int64_t cols() const override { return matrix_.cols; }
  uint64_t row_bytes() const override { return matrix_.bytes() / static_cast<uint64_t>(matrix_.rows); }

  void look_up(float* out, int32_t token) const { decode_row(matrix_, token, out); }

 private:
  Buffer memory_;
  Matrix matrix_;  // views memory_
};

// A copy, so that the checkpoint may be closed.
Result<std::unique_ptr<Embedding>> copy_embedding(const Matrix& matrix);

}  // namespace weir::cpu
