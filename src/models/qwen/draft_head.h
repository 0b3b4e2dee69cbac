// The multi-token prediction head of a Qwen3.6 checkpoint (its tensors mtp.*): one further attention layer
// that guesses the token after the next.
//
// A pair is a hidden row of the model (after the final norm) at position i and token i + 1. With
// e = RMSNorm(embedding of the token) and d = RMSNorm(hidden row):
//   x = fc [e | d];  x = layer(x) at position i, which sees all pairs before it;  y = RMSNorm(x)
// and the head of the model makes of y the logits of token i + 2. To guess further, y takes the place of the
// hidden row in the next pair. (vLLM, qwen3_5_mtp.py; SGLang and llama.cpp agree.)
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "checkpoint/matrix.h"
#include "kernels/steps.h"
#include "models/qwen/layer.h"

namespace weir::qwen {

// Columns [first, first + count) of a matrix, copied.
class MatrixColumns {
 public:
  // Affine matrices are cut between groups and between bytes only.
  MatrixColumns(const Matrix& whole, int64_t first, int64_t count);
  MatrixColumns(MatrixColumns&&) = default;  // the view follows the bytes; a copy's would not

  const Matrix& matrix() const { return matrix_; }

 private:
  std::vector<std::byte> weight_, scales_, biases_;
  Matrix matrix_;
};

struct DraftHead {
  Vector norm_embedding, norm_hidden;  // [H]
  // fc by columns: the half that meets the embedding and the half that meets the hidden row.
  std::unique_ptr<Linear> from_embedding, from_hidden;  // [H, H]
  Layer layer;                                          // of attention; index 0 of a sequence of its own
  Vector norm;                                          // [H]

  std::vector<MatrixColumns> columns;  // what the halves may be views of
};

}  // namespace weir::qwen
