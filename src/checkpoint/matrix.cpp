#include "checkpoint/matrix.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little, "a packed row is a little-endian bit stream");

// Whatever the width, eight values fill exactly `bits` bytes, so values never straddle these blocks.
void unpack_eight(const std::byte* block, int bits, uint8_t* out) {
  uint64_t stream = 0;
  std::memcpy(&stream, block, static_cast<size_t>(bits));
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int i = 0; i < 8; ++i) out[i] = static_cast<uint8_t>((stream >> (i * bits)) & mask);
}

const char* lower_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kF16:
      return "f16";
    case Dtype::kF32:
      return "f32";
    default:
      WEIR_CHECK(false);
  }
}

void decode_affine_row(const Matrix& matrix, int64_t row, float* out) {
  const int group = matrix.encoding.group;
  const int bits = matrix.encoding.bits;
  const std::byte* packed = matrix.weight + static_cast<size_t>(row) * matrix.weight_row_bytes();
  for (int64_t g = 0; g < matrix.groups_per_row(); ++g) {
    const float scale = matrix_scale(matrix, row, g);
    const float bias = matrix_bias(matrix, row, g);
    for (int i = 0; i < group; i += 8, packed += bits, out += 8) {
      uint8_t q[8];
      unpack_eight(packed, bits, q);
      for (int k = 0; k < 8; ++k) out[k] = scale * static_cast<float>(q[k]) + bias;
    }
  }
}

}  // namespace

std::string Encoding::text() const {
  if (!affine()) return lower_name(dtype);
  return "affine " + std::to_string(bits) + "-bit, groups of " + std::to_string(group);
}

size_t Matrix::weight_row_bytes() const {
  const auto width = static_cast<size_t>(cols);
  return encoding.affine() ? width * static_cast<size_t>(encoding.bits) / 8
                           : width * dtype_size(encoding.dtype);
}

size_t Matrix::scale_row_bytes() const {
  return static_cast<size_t>(groups_per_row()) * dtype_size(encoding.dtype);
}

size_t Matrix::bytes() const {
  return static_cast<size_t>(rows) * (weight_row_bytes() + 2 * scale_row_bytes());
}

Matrix Matrix::slice(int64_t first_row, int64_t row_count) const {
  WEIR_CHECK(first_row >= 0 && row_count >= 0 && first_row <= rows && row_count <= rows - first_row);
  const auto skipped = static_cast<size_t>(first_row);
  Matrix part = *this;
  part.rows = row_count;
  part.weight += skipped * weight_row_bytes();
  if (encoding.affine()) {
    part.scales += skipped * scale_row_bytes();
    part.biases += skipped * scale_row_bytes();
  }
  return part;
}

void decode_row(const Matrix& matrix, int64_t row, float* out) {
  if (matrix.encoding.affine()) return decode_affine_row(matrix, row, out);
  const std::byte* values = matrix.weight + static_cast<size_t>(row) * matrix.weight_row_bytes();
  for (int64_t i = 0; i < matrix.cols; ++i) out[i] = load_float(matrix.encoding.dtype, values, i);
}

void unpack_row(const Matrix& matrix, int64_t row, uint8_t* out) {
  const int bits = matrix.encoding.bits;
  const std::byte* packed = matrix.weight + static_cast<size_t>(row) * matrix.weight_row_bytes();
  for (int64_t i = 0; i < matrix.cols; i += 8, packed += bits) unpack_eight(packed, bits, out + i);
}

float matrix_scale(const Matrix& matrix, int64_t row, int64_t group) {
  return load_float(matrix.encoding.dtype, matrix.scales, row * matrix.groups_per_row() + group);
}

float matrix_bias(const Matrix& matrix, int64_t row, int64_t group) {
  return load_float(matrix.encoding.dtype, matrix.biases, row * matrix.groups_per_row() + group);
}

}  // namespace weir
