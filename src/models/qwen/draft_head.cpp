#include "models/qwen/draft_head.h"

#include <cstring>

#include "base/check.h"

namespace weir::qwen {
namespace {

// Bytes [first, first + count) of each of `rows` rows of `row_bytes`.
std::vector<std::byte> cut_rows(const std::byte* from, int64_t rows, size_t row_bytes, size_t first,
                                size_t count) {
  std::vector<std::byte> out(static_cast<size_t>(rows) * count);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    std::memcpy(out.data() + r * count, from + r * row_bytes + first, count);
  }
  return out;
}

}  // namespace

MatrixColumns::MatrixColumns(const Matrix& whole, int64_t first, int64_t count) : matrix_(whole) {
  Matrix before = whole;
  before.cols = first;
  matrix_.cols = count;
  const Encoding& encoding = whole.encoding;
  WEIR_CHECK(!encoding.affine() ||
             (first % encoding.group == 0 && count % encoding.group == 0 && first * encoding.bits % 8 == 0));
  weight_ = cut_rows(whole.weight, whole.rows, whole.weight_row_bytes(), before.weight_row_bytes(),
                     matrix_.weight_row_bytes());
  matrix_.weight = weight_.data();
  if (!encoding.affine()) return;
  for (const auto& [from, to, bytes] : {std::tuple{whole.scales, &matrix_.scales, &scales_},
                                        std::tuple{whole.biases, &matrix_.biases, &biases_}}) {
    *bytes = cut_rows(from, whole.rows, whole.scale_row_bytes(), before.scale_row_bytes(),
                      matrix_.scale_row_bytes());
    *to = bytes->data();
  }
}

}  // namespace weir::qwen
