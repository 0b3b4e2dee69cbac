#include "checkpoint/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace weir {
namespace {

struct Affine {
  float scale = 0;
  float bias = 0;
};

// w = scale * q + bias with the edge of larger magnitude as bias, at q = 0, so the scale is negative when
// that edge is the maximum. The scale is moved so that a whole number of steps leads from the edge to zero:
// both are then exact.
Affine choose_affine(std::span<const float> group, float levels) {
  if (!std::all_of(group.begin(), group.end(), [](float w) { return std::isfinite(w); })) return {NAN, NAN};
  const auto [low, high] = std::minmax_element(group.begin(), group.end());
  const bool low_edge = std::fabs(*low) > std::fabs(*high);
  const float edge = low_edge ? *low : *high;
  float scale = std::max((*high - *low) / levels, 1e-7f);
  if (!low_edge) scale = -scale;
  const float steps = std::nearbyint(edge / scale);
  if (steps == 0) return {scale, 0};
  return {edge / steps, edge};
}

uint8_t nearest_level(float value, const Affine& affine, float levels) {
  const float q = std::nearbyint((value - affine.bias) / affine.scale);
  return q > 0 ? static_cast<uint8_t>(std::min(q, levels)) : 0;  // NaN gives 0
}

void store_float(Dtype dtype, float value, std::byte* data, size_t i) {
  if (dtype == Dtype::kF32) {
    std::memcpy(data + i * sizeof value, &value, sizeof value);
  } else {
    const Bf16 rounded = to_bf16(value);
    std::memcpy(data + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

std::vector<std::byte> store_floats(Dtype dtype, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) store_float(dtype, values[i], bytes.data(), i);
  return bytes;
}

}  // namespace

void quantize_row(std::span<const float> row, int bits, int group, std::span<uint8_t> q,
                  std::span<float> scales, std::span<float> biases) {
  const auto width = static_cast<size_t>(group);
  WEIR_CHECK(row.size() % width == 0 && q.size() == row.size());
  WEIR_CHECK(scales.size() == row.size() / width && biases.size() == scales.size());
  const auto levels = static_cast<float>((1 << bits) - 1);
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto values = row.subspan(g * width, width);
    const Affine affine = choose_affine(values, levels);
    for (size_t i = 0; i < width; ++i) q[g * width + i] = nearest_level(values[i], affine, levels);
    scales[g] = affine.scale;
    biases[g] = affine.bias;
  }
}

void pack_row(std::span<const uint8_t> q, int bits, std::byte* out) {
  WEIR_CHECK(q.size() % 8 == 0);
  for (size_t i = 0; i < q.size(); i += 8, out += bits) {
    uint64_t stream = 0;
    for (size_t k = 0; k < 8; ++k)
      stream |= static_cast<uint64_t>(q[i + k]) << (k * static_cast<size_t>(bits));
    std::memcpy(out, &stream, static_cast<size_t>(bits));
  }
}

OwnedMatrix encode_matrix(std::span<const float> values, int64_t rows, int64_t cols,
                          const Encoding& encoding) {
  WEIR_CHECK(encoding.dtype == Dtype::kBf16 || encoding.dtype == Dtype::kF32);
  WEIR_CHECK(static_cast<int64_t>(values.size()) == rows * cols);
  OwnedMatrix matrix{encoding, rows, cols, {}, {}, {}};
  if (!encoding.affine()) {
    matrix.weight = store_floats(encoding.dtype, values);
    return matrix;
  }
  const auto width = static_cast<size_t>(cols);
  const size_t groups = width / static_cast<size_t>(encoding.group);
  const size_t row_bytes = width * static_cast<size_t>(encoding.bits) / 8;
  std::vector<uint8_t> q(width);
  std::vector<float> scales(values.size() / static_cast<size_t>(encoding.group));
  std::vector<float> biases(scales.size());
  matrix.weight.resize(static_cast<size_t>(rows) * row_bytes);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    quantize_row(values.subspan(row * width, width), encoding.bits, encoding.group, q,
                 std::span(scales).subspan(row * groups, groups),
                 std::span(biases).subspan(row * groups, groups));
    pack_row(q, encoding.bits, matrix.weight.data() + row * row_bytes);
  }
  matrix.scales = store_floats(encoding.dtype, scales);
  matrix.biases = store_floats(encoding.dtype, biases);
  return matrix;
}

}  // namespace weir
