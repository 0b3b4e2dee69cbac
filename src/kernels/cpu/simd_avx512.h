// The vector layer on AVX-512 (F, BW, DQ, VL), with VNNI where the build allows it. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace weir::cpu::WEIR_ISA {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct U8x64 {
  __m512i v;
};
struct I8x64 {
  __m512i v;
};

WEIR_SIMD __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>((1u << n) - 1u);
}

// ---- float

WEIR_SIMD F32x16 set1(float x) {
  return {_mm512_set1_ps(x)};
}
WEIR_SIMD F32x16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
WEIR_SIMD F32x16 load_first(const float* p, int64_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
WEIR_SIMD void store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
WEIR_SIMD void store_first(float* p, F32x16 a, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}

WEIR_SIMD F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
WEIR_SIMD F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
WEIR_SIMD F32x16 sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
WEIR_SIMD F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}

// ---- int32

WEIR_SIMD I32x16 set1_i32(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
WEIR_SIMD I32x16 load_i32(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
WEIR_SIMD void store_i32(int32_t* p, I32x16 a) {
  _mm512_storeu_si512(p, a.v);
}
// The low byte of each lane.
WEIR_SIMD void store_i8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
WEIR_SIMD I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
WEIR_SIMD I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
WEIR_SIMD I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
WEIR_SIMD I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
WEIR_SIMD I32x16 max(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
template <int n>
WEIR_SIMD I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>
WEIR_SIMD I32x16 shift_right(I32x16 a) {
  return {_mm512_srli_epi32(a.v, n)};
}
WEIR_SIMD F32x16 to_f32(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
WEIR_SIMD I32x16 bits(F32x16 a) {
  return {_mm512_castps_si512(a.v)};
}
WEIR_SIMD F32x16 as_f32(I32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}

// ---- bfloat16

WEIR_SIMD F32x16 load_bf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return as_f32({_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)});
}
// Rounds to nearest even; not for NaN.
WEIR_SIMD void store_bf16(uint16_t* p, F32x16 a) {
  const I32x16 odd = shift_right<16>(bits(a)) & set1_i32(1);
  const I32x16 rounded = shift_right<16>(bits(a) + odd + set1_i32(0x7fff));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(rounded.v));
}

// ---- reductions: lanes i and i + 8, then i and i + 4, i + 2, i + 1

WEIR_SIMD float reduce_add(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
WEIR_SIMD float reduce_max(F32x16 a) {
  const __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
WEIR_SIMD int32_t reduce_add(I32x16 a) {
  return _mm512_reduce_add_epi32(a.v);
}
WEIR_SIMD int32_t reduce_max(I32x16 a) {
  return _mm512_reduce_max_epi32(a.v);
}

// ---- products of bytes

WEIR_SIMD U8x64 load_u8x64(const uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
template <int first, int count, int to>
WEIR_SIMD U8x64 bits_of(U8x64 a) {
  static_assert(first >= to);
  const __m512i shifted = first == to ? a.v : _mm512_srli_epi16(a.v, first - to);
  return {_mm512_and_si512(shifted, _mm512_set1_epi8(((1 << count) - 1) << to))};
}
WEIR_SIMD U8x64 operator|(U8x64 a, U8x64 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
WEIR_SIMD I32x16 lanes(U8x64 a) {
  return {a.v};
}
WEIR_SIMD I8x64 broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {_mm512_set1_epi32(four)};
}

#if defined(__AVX512VNNI__)
struct SumsU4 {
  __m512i all;
};
using SumsU8 = SumsU4;
WEIR_SIMD SumsU4 open_u4(I32x16 acc) {
  return {acc.v};
}
WEIR_SIMD SumsU8 open_u8(I32x16 acc) {
  return {acc.v};
}
WEIR_SIMD void add(SumsU4& sums, U8x64 w, I8x64 x) {
  sums.all = _mm512_dpbusd_epi32(sums.all, w.v, x.v);
}
WEIR_SIMD I32x16 close(I32x16, SumsU4 sums) {
  return {sums.all};
}
#else
// Both as simd_avx2.h has them.
static_assert(kQuads * 2 * 15 * 128 < 1 << 15);
struct SumsU4 {
  __m512i pairs;
};
WEIR_SIMD SumsU4 open_u4(I32x16) {
  return {_mm512_setzero_si512()};
}
WEIR_SIMD void add(SumsU4& sums, U8x64 w, I8x64 x) {
  sums.pairs = _mm512_add_epi16(sums.pairs, _mm512_maddubs_epi16(w.v, x.v));
}
WEIR_SIMD I32x16 close(I32x16 acc, SumsU4 sums) {
  return acc + I32x16{_mm512_madd_epi16(sums.pairs, _mm512_set1_epi16(1))};
}

struct SumsU8 {
  I32x16 all;
};
WEIR_SIMD SumsU8 open_u8(I32x16 acc) {
  return {acc};
}
WEIR_SIMD void add(SumsU8& sums, U8x64 w, I8x64 x) {
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(x.v, 8), 8), odd = _mm512_srai_epi16(x.v, 8);
  const __m512i bytes = _mm512_and_si512(w.v, _mm512_set1_epi16(0xff));
  sums.all = sums.all + I32x16{_mm512_madd_epi16(bytes, even)};
  sums.all = sums.all + I32x16{_mm512_madd_epi16(_mm512_srli_epi16(w.v, 8), odd)};
}
WEIR_SIMD I32x16 close(I32x16, SumsU8 sums) {
  return sums.all;
}
#endif

}  // namespace weir::cpu::WEIR_ISA
