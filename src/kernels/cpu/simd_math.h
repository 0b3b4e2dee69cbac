// Elementary functions on the vector layer, built from its exactly defined operations, so that they too give
// the same bits in every instruction set. Errors are measured against float64 in simd_math_test.
#pragma once

#include "kernels/cpu/simd.h"

namespace weir::cpu::WEIR_ISA {

// e^x, relative error below 1.5e-7. Below -87.3 the result is 0, above 88.3 infinity.
// x = n ln2 + r with |r| <= ln2 / 2; e^r by its Taylor polynomial, whose first missing term is below 6e-9.
WEIR_SIMD F32x16 exp(F32x16 x) {
  const F32x16 magic =
      set1(12582912.0f);  // 1.5 * 2^23: a sum with it has the nearest integer in its low bits
  const F32x16 shifted = fma(x, set1(1.44269504f), magic);
  const F32x16 n = shifted - magic;
  F32x16 r = fma(n, set1(-0.693359375f), x);  // ln2 in two parts, n times the first one being exact
  r = fma(n, set1(2.12194440e-4f), r);
  F32x16 p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  const F32x16 power = as_f32(shift_left<23>(bits(shifted) + set1_i32(127)));
  const F32x16 y = select_less(x, set1(-87.3f), set1(0.0f), p * power);
  return select_less(set1(88.3f), x, set1(__builtin_inff()), y);
}

// 1 / (1 + e^-x), relative error below 3e-7 for x >= -87; 0 below.
WEIR_SIMD F32x16 sigmoid(F32x16 x) {
  return set1(1.0f) / (set1(1.0f) + exp(negate(x)));
}

// x sigmoid(x), relative error as sigmoid's.
WEIR_SIMD F32x16 silu(F32x16 x) {
  return x / (set1(1.0f) + exp(negate(x)));
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), relative error below 4e-7. With y = e^-|x| <= 1,
// log1p(y) = 2 atanh(z), z = y / (2 + y) <= 1/3, by the series of atanh, whose first missing term is below
// 2e-9.
WEIR_SIMD F32x16 softplus(F32x16 x) {
  const F32x16 y = exp(negate(abs(x)));
  const F32x16 z = y / (set1(2.0f) + y);
  const F32x16 w = z * z;
  F32x16 p = set1(1.0f / 15);
  p = fma(p, w, set1(1.0f / 13));
  p = fma(p, w, set1(1.0f / 11));
  p = fma(p, w, set1(1.0f / 9));
  p = fma(p, w, set1(1.0f / 7));
  p = fma(p, w, set1(1.0f / 5));
  p = fma(p, w, set1(1.0f / 3));
  const F32x16 log1p = set1(2.0f) * fma(p * w, z, z);
  return max(x, set1(0.0f)) + log1p;
}

}  // namespace weir::cpu::WEIR_ISA
