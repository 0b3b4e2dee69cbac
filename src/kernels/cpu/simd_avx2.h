// The vector layer on AVX2 with FMA: two registers of 8 lanes. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace weir::cpu::WEIR_ISA {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct U8x64 {
  __m256i lo, hi;
};
struct I8x64 {
  __m256i all;  // the same in both halves
};

// Lanes [0, n) of one half, as the mask of vmaskmov.
WEIR_SIMD __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// ---- float

WEIR_SIMD F32x16 set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
WEIR_SIMD F32x16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
WEIR_SIMD F32x16 load_first(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
WEIR_SIMD void store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
WEIR_SIMD void store_first(float* p, F32x16 a, int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(n - 8), a.hi);
}

WEIR_SIMD F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
WEIR_SIMD F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
WEIR_SIMD F32x16 sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
WEIR_SIMD F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}

// ---- int32

WEIR_SIMD I32x16 set1_i32(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
WEIR_SIMD I32x16 load_i32(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
WEIR_SIMD void store_i32(int32_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
WEIR_SIMD I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
WEIR_SIMD I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
WEIR_SIMD I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
WEIR_SIMD I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
WEIR_SIMD I32x16 max(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
template <int n>
WEIR_SIMD I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <int n>
WEIR_SIMD I32x16 shift_right(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
WEIR_SIMD F32x16 to_f32(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
WEIR_SIMD I32x16 bits(F32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
WEIR_SIMD F32x16 as_f32(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

// Lanes hold values of 16 bits: the 16 of them in order.
WEIR_SIMD __m256i narrow_u16(I32x16 a) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xd8);
}
// The low byte of each lane.
WEIR_SIMD void store_i8(int8_t* p, I32x16 a) {
  const __m256i words = narrow_u16(a & set1_i32(0xff));
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

// ---- bfloat16

WEIR_SIMD __m256 widen_bf16(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
WEIR_SIMD F32x16 load_bf16(const uint16_t* p) {
  return {widen_bf16(p), widen_bf16(p + 8)};
}
// Rounds to nearest even; not for NaN.
WEIR_SIMD void store_bf16(uint16_t* p, F32x16 a) {
  const I32x16 odd = shift_right<16>(bits(a)) & set1_i32(1);
  const I32x16 rounded = shift_right<16>(bits(a) + odd + set1_i32(0x7fff));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_u16(rounded));
}

// ---- reductions: lanes i and i + 8, then i and i + 4, i + 2, i + 1

WEIR_SIMD float reduce_add(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
WEIR_SIMD float reduce_max(F32x16 a) {
  const __m256 s8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
WEIR_SIMD int32_t reduce_add(I32x16 a) {
  const __m256i s8 = _mm256_add_epi32(a.lo, a.hi);
  const __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
  const __m128i s2 = _mm_add_epi32(s4, _mm_shuffle_epi32(s4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 0xb1)));
}
WEIR_SIMD int32_t reduce_max(I32x16 a) {
  const __m256i s8 = _mm256_max_epi32(a.lo, a.hi);
  const __m128i s4 = _mm_max_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
  const __m128i s2 = _mm_max_epi32(s4, _mm_shuffle_epi32(s4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(s2, _mm_shuffle_epi32(s2, 0xb1)));
}

// ---- products of bytes

WEIR_SIMD U8x64 load_u8x64(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
template <int first, int count, int to>
WEIR_SIMD __m256i half_bits_of(__m256i a) {
  const __m256i shifted = first == to ? a : _mm256_srli_epi16(a, first - to);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(((1 << count) - 1) << to));
}
template <int first, int count, int to>
WEIR_SIMD U8x64 bits_of(U8x64 a) {
  static_assert(first >= to);
  return {half_bits_of<first, count, to>(a.lo), half_bits_of<first, count, to>(a.hi)};
}
WEIR_SIMD U8x64 operator|(U8x64 a, U8x64 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
WEIR_SIMD I32x16 lanes(U8x64 a) {
  return {a.lo, a.hi};
}
WEIR_SIMD I8x64 broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {_mm256_set1_epi32(four)};
}

// Small weights: pairs of products in 16 bits, of which kQuads fit. So most additions are vpmaddubsw and
// vpaddw alone.
static_assert(kQuads * 2 * 15 * 128 < 1 << 15);
struct SumsU4 {
  __m256i lo, hi;
};
WEIR_SIMD SumsU4 open_u4(I32x16) {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
WEIR_SIMD void add(SumsU4& sums, U8x64 w, I8x64 x) {
  sums.lo = _mm256_add_epi16(sums.lo, _mm256_maddubs_epi16(w.lo, x.all));
  sums.hi = _mm256_add_epi16(sums.hi, _mm256_maddubs_epi16(w.hi, x.all));
}
WEIR_SIMD I32x16 close(I32x16 acc, SumsU4 sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  return acc + I32x16{_mm256_madd_epi16(sums.lo, ones), _mm256_madd_epi16(sums.hi, ones)};
}

// Any weights: bytes widened to 16 bits, those at even places and those at odd ones.
struct SumsU8 {
  I32x16 all;
};
WEIR_SIMD SumsU8 open_u8(I32x16 acc) {
  return {acc};
}
WEIR_SIMD void add(SumsU8& sums, U8x64 w, I8x64 x) {
  const __m256i bytes = _mm256_set1_epi16(0xff);
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x.all, 8), 8), odd = _mm256_srai_epi16(x.all, 8);
  sums.all = sums.all + I32x16{_mm256_madd_epi16(_mm256_and_si256(w.lo, bytes), even),
                               _mm256_madd_epi16(_mm256_and_si256(w.hi, bytes), even)};
  sums.all = sums.all + I32x16{_mm256_madd_epi16(_mm256_srli_epi16(w.lo, 8), odd),
                               _mm256_madd_epi16(_mm256_srli_epi16(w.hi, 8), odd)};
}
WEIR_SIMD I32x16 close(I32x16, SumsU8 sums) {
  return sums.all;
}

}  // namespace weir::cpu::WEIR_ISA
