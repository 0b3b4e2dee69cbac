// Register tiles: a product is written for a fixed number of rows of activations, and the number is looked up
// at run time. For sources that are compiled per instruction set.
#pragma once

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"

namespace weir::cpu::WEIR_ISA {

// Rows of activations whose accumulators fit the registers: 32 of 512 bits, integer and float ones, or 16 of
// 256, where those of integers alone do (docs/kernels/cpu.md).
#if defined(__AVX512F__)
constexpr int kMaxTile = 12;
#elif defined(__AVX2__)
constexpr int kMaxTile = 5;
#else
constexpr int kMaxTile = 2;
#endif
static_assert(kMaxTile <= kLargestTile);

// f(0), ..., f(n - 1), unrolled.
template <int n, class F>
WEIR_SIMD void repeat(F f) {
  if constexpr (n > 0) {
    repeat<n - 1>(f);
    f(n - 1);
  }
}
#define WEIR_INLINE_LAMBDA __attribute__((always_inline))

// Asks for the lines of weights that follow `line`: into L2 a 4 KiB page ahead, because the hardware's own
// prefetching ends with a page, and into L1 from there. Either alone is slower (docs/kernels/cpu.md).
WEIR_SIMD void prefetch_weights(const uint8_t* line) {
  constexpr int64_t kIntoL2 = 4096;
  constexpr int64_t kIntoL1 = 1024;
  prefetch_l2(line + kIntoL2);
  prefetch(line + kIntoL1);
}

// What ends a group: scales of 16 rows, then their biases.
struct GroupScales {
  F32x16 scales;
  F32x16 biases;
};
WEIR_SIMD GroupScales load_scales(const uint8_t* p, bool wide) {
  if (wide) {
    const auto* floats = reinterpret_cast<const float*>(p);
    return {load(floats), load(floats + kLanes)};
  }
  const auto* halves = reinterpret_cast<const uint16_t*>(p);
  return {load_bf16(halves), load_bf16(halves + kLanes)};
}
WEIR_SIMD int64_t scales_bytes(bool wide) {
  return 2 * kLanes * (wide ? 4 : 2);
}

// Kernel<n>::run for the tile's count, which is between `least` and n.
template <template <int> class Kernel, int n = kMaxTile, int least = 1>
void run_tile(float* out, const uint8_t* block, const Tile& tile) {
  if constexpr (n >= least) {
    if (tile.count == n) return Kernel<n>::run(out, block, tile);
    run_tile<Kernel, n - 1, least>(out, block, tile);
  }
}

}  // namespace weir::cpu::WEIR_ISA
