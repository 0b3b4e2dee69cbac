#include "checkpoint/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian and loaded as it is");

template <class T>
T load(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "BOOL";
    case Dtype::kI8:
      return "I8";
    case Dtype::kU8:
      return "U8";
    case Dtype::kI16:
      return "I16";
    case Dtype::kU16:
      return "U16";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kI32:
      return "I32";
    case Dtype::kU32:
      return "U32";
    case Dtype::kF32:
      return "F32";
    case Dtype::kI64:
      return "I64";
    case Dtype::kU64:
      return "U64";
    case Dtype::kF64:
      return "F64";
  }
  WEIR_CHECK(false);
}

size_t dtype_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kI8:
    case Dtype::kU8:
      return 1;
    case Dtype::kI16:
    case Dtype::kU16:
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kI32:
    case Dtype::kU32:
    case Dtype::kF32:
      return 4;
    case Dtype::kI64:
    case Dtype::kU64:
    case Dtype::kF64:
      return 8;
  }
  WEIR_CHECK(false);
}

int64_t TensorView::elements() const {
  return static_cast<int64_t>(data.size() / dtype_size(dtype));
}

float load_float(Dtype dtype, const std::byte* data, int64_t i) {
  switch (dtype) {
    case Dtype::kBf16:
      return to_float(load<Bf16>(data, i));
    case Dtype::kF16:
      return half_to_float(load<uint16_t>(data, i));
    case Dtype::kF32:
      return load<float>(data, i);
    default:
      WEIR_CHECK(false);
  }
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace weir
