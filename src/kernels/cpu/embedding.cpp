#include "kernels/cpu/embedding.h"

#include <cstring>

#include "kernels/cpu/memory.h"

namespace weir::cpu {

Result<std::unique_ptr<Embedding>> copy_embedding(const Matrix& matrix) {
  WEIR_TRY(Buffer memory, allocate_pages(matrix.bytes()));
  Matrix copy = matrix;
  auto* next = static_cast<std::byte*>(memory.data());
  const auto take = [&](const std::byte*& part, size_t row_bytes) {
    const size_t bytes = row_bytes * static_cast<size_t>(matrix.rows);
    std::memcpy(next, part, bytes);
    part = next;
    next += bytes;
  };
  take(copy.weight, matrix.weight_row_bytes());
  if (matrix.encoding.affine()) {
    take(copy.scales, matrix.scale_row_bytes());
    take(copy.biases, matrix.scale_row_bytes());
  }
  return std::unique_ptr<Embedding>(std::make_unique<EmbeddingTable>(std::move(memory), copy));
}

}  // namespace weir::cpu
