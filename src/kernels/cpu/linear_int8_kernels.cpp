// Products of affine weights with activations rounded to int8.
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// Lines in one turn of the loop; divides those of the smallest group.
constexpr int kUnrolled = 4;

// dot[i] += line * activations, for the 8 columns of a line of nibbles; q is that of the line's first column.
template <int n>
struct NibbleLines {
  static constexpr int64_t kCols = 8;

  WEIR_SIMD void add(I32x16* dot, const uint8_t* line, const int8_t* q) {
    const U8x64 both = load_u8x64(line);
    const U8x64 low = low_nibbles(both);
    const U8x64 high = high_nibbles(both);
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = dot_u4(dot[i], low, broadcast4(q + 4 * i)); });
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = dot_u4(dot[i], high, broadcast4(q + 4 * (n + i))); });
  }
};

template <int n>
struct ByteLines {
  static constexpr int64_t kCols = 4;

  WEIR_SIMD void add(I32x16* dot, const uint8_t* line, const int8_t* q) {
    const U8x64 w = load_u8x64(line);
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = dot_u8(dot[i], w, broadcast4(q + 4 * i)); });
  }
};

template <template <int> class Lines>
struct Int8 {
  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      const int8_t* q = tile.q;
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t g = 0; g < tile.cols / tile.group; ++g) {
        I32x16 dot[n];
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = set1_i32(0); });
        for (int64_t k = 0; k < tile.group; k += kUnrolled * Lines<n>::kCols) {
          repeat<kUnrolled>([&](int l) WEIR_INLINE_LAMBDA {
            prefetch_weights(block + 64 * l);
            Lines<n>::add(dot, block + 64 * l, q + l * Lines<n>::kCols * n);
          });
          block += kUnrolled * 64;
          q += kUnrolled * Lines<n>::kCols * n;
        }
        const GroupScales end = load_scales(block, tile.wide_scales);
        block += scales_bytes(tile.wide_scales);
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA {
          acc[i] = fma(end.scales * set1(tile.scale[g * n + i]), to_f32(dot[i]), acc[i]);
          acc[i] = fma(end.biases, set1(tile.sum[g * n + i]), acc[i]);
        });
      }
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { store(out + kBlockRows * i, acc[i]); });
    }
  };
};

template <template <int> class Lines>
void product(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Int8<Lines>::template Kernel>(out, block, tile);
}

}  // namespace

extern constinit const Int8Kernels kInt8Kernels = {
    .nibbles = product<NibbleLines>, .bytes = product<ByteLines>, .max_tile = kMaxTile};

}  // namespace weir::cpu::WEIR_ISA
