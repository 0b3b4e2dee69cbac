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

// x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), the tanh approximation of
// GELU. Absolute error below 3e-7 max(1, |x|).
WEIR_SIMD F32x16 gelu(F32x16 x) {
  const F32x16 cubic = fma(x * x, set1(0.07135482f), set1(1.59576912f));  // 2 u / x
  return x / (set1(1.0f) + exp(negate(x * cubic)));
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

// tanh x, relative error below 3e-7. Up to |x| = 5/8 it is x + x^3 P(x^2), P by Chebyshev's interpolation of
// (tanh(x) / x - 1) / x^2, which adds 2e-8; above it (1 - e) / (1 + e) with e = e^(-2 |x|).
WEIR_SIMD F32x16 tanh(F32x16 x) {
  const F32x16 a = abs(x);
  const F32x16 t = x * x;
  F32x16 p = set1(-6.096714166e-3f);
  p = fma(p, t, set1(2.0997179e-2f));
  p = fma(p, t, set1(-5.385090958e-2f));
  p = fma(p, t, set1(1.333276974e-1f));
  p = fma(p, t, set1(-3.333332894e-1f));
  const F32x16 low = fma(a * t, p, a);
  const F32x16 e = exp(a * set1(-2.0f));
  const F32x16 high = (set1(1.0f) - e) / (set1(1.0f) + e);
  const F32x16 y = select_less(set1(0.625f), a, high, low);
  return as_f32(bits(y) | (bits(x) & set1_i32(static_cast<int32_t>(0x80000000u))));
}

}  // namespace weir::cpu::WEIR_ISA
