// The vector layer in plain C++: loops over 16 lanes. The definition of what the others do, and what runs on
// a CPU without AVX2. Included by simd.h only.
#pragma once

namespace weir::cpu::WEIR_ISA {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct U8x64 {
  uint8_t v[64];
};
struct I8x64 {
  int8_t v[4];  // the same in every lane
};

// r.v[lane] = f(lane) for all lanes.
template <class Vector, class F>
WEIR_SIMD Vector each(F f) {
  Vector r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

// ---- float

WEIR_SIMD F32x16 set1(float x) {
  return each<F32x16>([&](int) { return x; });
}
WEIR_SIMD F32x16 load(const float* p) {
  return each<F32x16>([&](int i) { return p[i]; });
}
WEIR_SIMD F32x16 load_first(const float* p, int64_t n) {
  return each<F32x16>([&](int i) { return i < n ? p[i] : 0.0f; });
}
WEIR_SIMD void store_first(float* p, const F32x16& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = a.v[i];
}
WEIR_SIMD void store(float* p, const F32x16& a) {
  store_first(p, a, 16);
}

WEIR_SIMD F32x16 operator+(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
WEIR_SIMD F32x16 operator-(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
WEIR_SIMD F32x16 operator*(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] * b.v[i]; });
}
WEIR_SIMD F32x16 operator/(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] / b.v[i]; });
}
WEIR_SIMD F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return each<F32x16>([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
WEIR_SIMD F32x16 min(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
WEIR_SIMD F32x16 max(const F32x16& a, const F32x16& b) {
  return each<F32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
WEIR_SIMD F32x16 sqrt(const F32x16& a) {
  return each<F32x16>([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
WEIR_SIMD F32x16 select_less(const F32x16& a, const F32x16& b, const F32x16& x, const F32x16& y) {
  return each<F32x16>([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}

// ---- int32; unsigned inside, because signed overflow is undefined

WEIR_SIMD uint32_t unsigned_lane(const I32x16& a, int i) {
  return static_cast<uint32_t>(a.v[i]);
}

WEIR_SIMD I32x16 set1_i32(int32_t x) {
  return each<I32x16>([&](int) { return x; });
}
WEIR_SIMD I32x16 load_i32(const int32_t* p) {
  return each<I32x16>([&](int i) { return p[i]; });
}
WEIR_SIMD void store_i32(int32_t* p, const I32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
// The low byte of each lane.
WEIR_SIMD void store_i8(int8_t* p, const I32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}
WEIR_SIMD I32x16 operator+(const I32x16& a, const I32x16& b) {
  return each<I32x16>([&](int i) { return static_cast<int32_t>(unsigned_lane(a, i) + unsigned_lane(b, i)); });
}
WEIR_SIMD I32x16 operator-(const I32x16& a, const I32x16& b) {
  return each<I32x16>([&](int i) { return static_cast<int32_t>(unsigned_lane(a, i) - unsigned_lane(b, i)); });
}
WEIR_SIMD I32x16 operator&(const I32x16& a, const I32x16& b) {
  return each<I32x16>([&](int i) { return a.v[i] & b.v[i]; });
}
WEIR_SIMD I32x16 operator|(const I32x16& a, const I32x16& b) {
  return each<I32x16>([&](int i) { return a.v[i] | b.v[i]; });
}
WEIR_SIMD I32x16 max(const I32x16& a, const I32x16& b) {
  return each<I32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
template <int n>
WEIR_SIMD I32x16 shift_left(const I32x16& a) {
  return each<I32x16>([&](int i) { return static_cast<int32_t>(unsigned_lane(a, i) << n); });
}
template <int n>
WEIR_SIMD I32x16 shift_right(const I32x16& a) {
  return each<I32x16>([&](int i) { return static_cast<int32_t>(unsigned_lane(a, i) >> n); });
}
WEIR_SIMD F32x16 to_f32(const I32x16& a) {
  return each<F32x16>([&](int i) { return static_cast<float>(a.v[i]); });
}
WEIR_SIMD I32x16 bits(const F32x16& a) {
  I32x16 r;
  __builtin_memcpy(&r, &a, sizeof(r));
  return r;
}
WEIR_SIMD F32x16 as_f32(const I32x16& a) {
  F32x16 r;
  __builtin_memcpy(&r, &a, sizeof(r));
  return r;
}

// ---- bfloat16

WEIR_SIMD F32x16 load_bf16(const uint16_t* p) {
  return as_f32(each<I32x16>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16); }));
}
// Rounds to nearest even; not for NaN.
WEIR_SIMD void store_bf16(uint16_t* p, const F32x16& a) {
  const I32x16 odd = shift_right<16>(bits(a)) & set1_i32(1);
  const I32x16 rounded = shift_right<16>(bits(a) + odd + set1_i32(0x7fff));
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint16_t>(rounded.v[i]);
}

// ---- reductions: lanes i and i + 8, then i and i + 4, i + 2, i + 1

template <class Vector, class F>
WEIR_SIMD auto reduce(Vector a, F f) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = f(a.v[i], a.v[i + half]);
  }
  return a.v[0];
}
WEIR_SIMD float reduce_add(const F32x16& a) {
  return reduce(a, [](float x, float y) { return x + y; });
}
WEIR_SIMD float reduce_max(const F32x16& a) {
  return reduce(a, [](float x, float y) { return x > y ? x : y; });
}
WEIR_SIMD int32_t reduce_add(const I32x16& a) {
  return reduce(a, [](int32_t x, int32_t y) { return x + y; });
}
WEIR_SIMD int32_t reduce_max(const I32x16& a) {
  return reduce(a, [](int32_t x, int32_t y) { return x > y ? x : y; });
}

// ---- products of bytes

WEIR_SIMD U8x64 load_u8x64(const uint8_t* p) {
  U8x64 r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
template <int first, int count, int to>
WEIR_SIMD U8x64 bits_of(const U8x64& a) {
  static_assert(first >= to);
  U8x64 r;
  for (int i = 0; i < 64; ++i)
    r.v[i] = static_cast<uint8_t>(a.v[i] >> (first - to) & ((1 << count) - 1) << to);
  return r;
}
WEIR_SIMD U8x64 operator|(const U8x64& a, const U8x64& b) {
  U8x64 r;
  for (int i = 0; i < 64; ++i) r.v[i] = a.v[i] | b.v[i];
  return r;
}
WEIR_SIMD I32x16 lanes(const U8x64& a) {
  I32x16 r;
  __builtin_memcpy(&r, &a, sizeof(r));
  return r;
}
WEIR_SIMD I8x64 broadcast4(const int8_t* p) {
  return {{p[0], p[1], p[2], p[3]}};
}

struct SumsU4 {
  I32x16 all;
};
using SumsU8 = SumsU4;
WEIR_SIMD SumsU4 open_u4(const I32x16& acc) {
  return {acc};
}
WEIR_SIMD SumsU8 open_u8(const I32x16& acc) {
  return {acc};
}
WEIR_SIMD void add(SumsU4& sums, const U8x64& w, const I8x64& x) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) sums.all.v[i] += w.v[4 * i + j] * x.v[j];
  }
}
WEIR_SIMD I32x16 close(const I32x16&, const SumsU4& sums) {
  return sums.all;
}

}  // namespace weir::cpu::WEIR_ISA
