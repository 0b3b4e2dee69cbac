// bfloat16: the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

namespace weir {

struct Bf16 {
  uint16_t bits = 0;
};

inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a NaN.
inline Bf16 to_bf16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  u += 0x7fffu + ((u >> 16) & 1u);
  return {static_cast<uint16_t>(u >> 16)};
}

}  // namespace weir
