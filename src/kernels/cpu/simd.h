// A small vector layer of 16 logical lanes, in which every CPU kernel is written once. The build compiles a
// kernel's source once for each instruction set, with WEIR_ISA naming the namespace (portable, avx2, avx512,
// avx512_vnni). Lanes, rounding, fused multiply-adds and the order of reductions are the same in all of them,
// so all give the same bits.
//
// A source compiled per instruction set includes nothing but this header, kernels/cpu/ headers of plain
// structs, <cstdint> and <cstddef>: an inline function of another header would be compiled with, say, AVX-512
// and could be the copy that the linker keeps for everyone.
//
// Types: F32x16, I32x16, U8x64 (16 lanes of 4 unsigned bytes), I8x64 (16 lanes of 4 signed bytes).
//   set1(x), set1_i32(i); load(p), load_first(p, n), load_bf16(p), load_i32(p);
//   store(p, v), store_first(p, v, n), store_bf16(p, v), store_i32(p, v), store_i8(p, v).
//   + - * / on F32x16; fma(a, b, c) = a * b + c rounded once; sqrt; min(a, b) = a < b ? a : b; max alike with
//   >, so that a NaN in `b` stays and one in `a` goes; select_less(a, b, x, y) = a < b ? x : y.
//   + - & | on I32x16 (wrapping); max; shift_left<n>, shift_right<n> (zeros come in); to_f32 (rounds to
//   even); bits(F32x16) and as_f32(I32x16) reinterpret. load_u8x64(p); bits_of<first, count, to>(U8x64): of
//   each byte bits [first, first + count), moved down to bit `to`; |; lanes(U8x64) as 16 little-endian int32;
//   broadcast4(p): the 4 signed bytes at p in every lane.
//   Products of bytes: s = open_u8(acc); up to kQuads times add(s, w, x); acc = close(acc, s) gives acc[lane]
//   += sum of w * x over the 4 bytes of the lane in each call, exactly. The same from open_u4, for w <= 15.
// Pointers need no alignment. load_first gives zeros from lane n on, store_first leaves memory beyond n
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef WEIR_ISA
#error "WEIR_ISA names the namespace of the instruction set; see kernels/cpu/sources.cmake"
#endif

#define WEIR_SIMD static inline __attribute__((always_inline))

namespace weir::cpu::WEIR_ISA {

// Products of quads of bytes that sums take before they are closed.
constexpr int64_t kQuads = 8;

}  // namespace weir::cpu::WEIR_ISA

#if defined(__AVX512F__)
#include "kernels/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/simd_avx2.h"
#else
#include "kernels/cpu/simd_portable.h"
#endif

namespace weir::cpu::WEIR_ISA {

constexpr int64_t kLanes = 16;

WEIR_SIMD F32x16 abs(F32x16 a) {
  return as_f32(bits(a) & set1_i32(0x7fffffff));
}

WEIR_SIMD F32x16 negate(F32x16 a) {
  return set1(-0.0f) - a;
}

// Brings the cache line at `p` nearer; any address is allowed.
WEIR_SIMD void prefetch(const void* p) {
  __builtin_prefetch(p);
}

// The same as far as the second-level cache: an L1 miss holds one of a core's few fill buffers until its line
// has come, and those are what bounds the rate of one core.
WEIR_SIMD void prefetch_l2(const void* p) {
  __builtin_prefetch(p, 0, 2);
}

WEIR_SIMD float bf16_to_f32(uint16_t x) {
  const uint32_t u = static_cast<uint32_t>(x) << 16;
  float f;
  __builtin_memcpy(&f, &u, sizeof(f));
  return f;
}

}  // namespace weir::cpu::WEIR_ISA
