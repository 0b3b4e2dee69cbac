#include "device/random_weights.h"

#include <cmath>
#include <cstring>

#include "base/bf16.h"

namespace weir::bench {
namespace {

float rounded(float x) {
  return to_float(to_bf16(x));
}

void put(std::vector<std::byte>& to, size_t index, Dtype dtype, float value) {
  if (dtype == Dtype::kF32) {
    std::memcpy(to.data() + 4 * index, &value, 4);
  } else {
    const uint16_t bits = to_bf16(value).bits;
    std::memcpy(to.data() + 2 * index, &bits, 2);
  }
}

}  // namespace

// xorshift64*
uint64_t Random::bits() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545f4914f6cdd1du;
}

float Random::uniform(float low, float high) {
  return low + (high - low) * static_cast<float>(bits() >> 40) * 0x1p-24f;
}

float Random::normal() {
  const float radius = std::sqrt(-2.0f * std::log(uniform(1e-7f, 1.0f)));
  return radius * std::cos(6.2831853f * uniform(0.0f, 1.0f));
}

std::vector<float> Random::values(int64_t count, float deviation, float mean) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = rounded(mean + deviation * normal());
  return out;
}

OwnedMatrix Random::matrix(int64_t rows, int64_t cols, const Encoding& encoding) {
  OwnedMatrix m{encoding, rows, cols, {}, {}, {}};
  const Matrix shape = m.view();
  m.weight.resize(static_cast<size_t>(rows) * shape.weight_row_bytes());
  if (!encoding.affine()) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(cols));
    for (size_t i = 0; i < static_cast<size_t>(rows * cols); ++i)
      put(m.weight, i, encoding.dtype, deviation * normal());
    return m;
  }
  for (size_t i = 0; i + 8 <= m.weight.size(); i += 8) {
    const uint64_t word = bits();
    std::memcpy(m.weight.data() + i, &word, 8);
  }
  const float levels = static_cast<float>((1 << encoding.bits) - 1);
  const float unit = 1.0f / std::sqrt(levels * (levels + 2) / 12.0f * static_cast<float>(cols));
  const auto groups = static_cast<size_t>(rows * cols / encoding.group);
  m.scales.resize(groups * dtype_size(encoding.dtype));
  m.biases.resize(groups * dtype_size(encoding.dtype));
  for (size_t g = 0; g < groups; ++g) {
    const float scale = unit * uniform(0.5f, 1.5f) * (bits() % 4 == 0 ? 1.0f : -1.0f);
    put(m.scales, g, encoding.dtype, scale);
    put(m.biases, g, encoding.dtype, -scale * levels * uniform(0.45f, 0.55f));
  }
  return m;
}

}  // namespace weir::bench
