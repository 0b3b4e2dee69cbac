// The lines of packed weights (linear_kernels.h) as bytes. For sources that are compiled per instruction set.
#pragma once

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"

namespace weir::cpu::WEIR_ISA {

inline constexpr int64_t kLineBytes = 64;

// The fewest lines that hold whole columns: kLines of them hold kCols. visit calls f(i, w) for ascending i
// with columns 4 i ... 4 i + 3, those of a row in the four bytes of its lane, one value each.
template <int bits>
struct Lines;

template <>
struct Lines<8> {
  static constexpr int64_t kCols = 4, kLines = 1;

  template <class F>
  WEIR_SIMD void visit(const uint8_t* p, F f) {
    f(0, load_u8x64(p));
  }
};

template <>
struct Lines<4> {
  static constexpr int64_t kCols = 8, kLines = 1;

  template <class F>
  WEIR_SIMD void visit(const uint8_t* p, F f) {
    const U8x64 line = load_u8x64(p);
    f(0, bits_of<0, 4, 0>(line));
    f(1, bits_of<4, 4, 0>(line));
  }
};

template <>
struct Lines<2> {
  static constexpr int64_t kCols = 16, kLines = 1;

  template <class F>
  WEIR_SIMD void visit(const uint8_t* p, F f) {
    const U8x64 line = load_u8x64(p);
    f(0, bits_of<0, 2, 0>(line));
    f(1, bits_of<2, 2, 0>(line));
    f(2, bits_of<4, 2, 0>(line));
    f(3, bits_of<6, 2, 0>(line));
  }
};

template <>
struct Lines<3> {
  static constexpr int64_t kCols = 32, kLines = 3;

  template <class F>
  WEIR_SIMD void visit(const uint8_t* p, F f) {
    const U8x64 first = load_u8x64(p);
    f(0, bits_of<0, 3, 0>(first));
    f(1, bits_of<3, 3, 0>(first));
    const U8x64 second = load_u8x64(p + kLineBytes);
    f(2, bits_of<0, 3, 0>(second));
    f(3, bits_of<3, 3, 0>(second));
    const U8x64 third = load_u8x64(p + 2 * kLineBytes);
    f(4, bits_of<0, 3, 0>(third));
    f(5, bits_of<3, 3, 0>(third));
    f(6, bits_of<6, 2, 0>(first) | bits_of<6, 1, 2>(third));
    f(7, bits_of<6, 2, 0>(second) | bits_of<7, 1, 2>(third));
  }
};

}  // namespace weir::cpu::WEIR_ISA
