// Products of affine weights with activations rounded to int8.
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/packed_lines.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

constexpr int64_t kSmallestGroup = 32;

template <int bits>
struct Int8 {
  using L = Lines<bits>;
  static constexpr int64_t kBytes = L::kLines * kLineBytes;

  // In one turn of the loop; divides those of the smallest group.
  static constexpr int kUnrolled = L::kCols <= 8 ? 4 : kSmallestGroup / L::kCols;

  // dot[i] += lines * activations; q is that of the lines' first column.
  template <int n>
  WEIR_SIMD void add(I32x16* dot, const uint8_t* lines, const int8_t* q) {
    repeat<L::kLines>([&](int l) WEIR_INLINE_LAMBDA { prefetch_weights(lines + kLineBytes * l); });
    L::visit(lines, [&](int c, U8x64 w) WEIR_INLINE_LAMBDA {
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA {
        const I8x64 x = broadcast4(q + 4 * (n * c + i));
        dot[i] = bits <= 4 ? dot_u4(dot[i], w, x) : dot_u8(dot[i], w, x);
      });
    });
  }

  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      const int8_t* q = tile.q;
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t g = 0; g < tile.cols / tile.group; ++g) {
        I32x16 dot[n];
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = set1_i32(0); });
        for (int64_t k = 0; k < tile.group; k += kUnrolled * L::kCols) {
          repeat<kUnrolled>(
              [&](int u) WEIR_INLINE_LAMBDA { add<n>(dot, block + kBytes * u, q + u * L::kCols * n); });
          block += kUnrolled * kBytes;
          q += kUnrolled * L::kCols * n;
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

template <int bits>
void product(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Int8<bits>::template Kernel>(out, block, tile);
}

}  // namespace

extern constinit const Int8Kernels kInt8Kernels = {
    .products = {product<2>, product<3>, product<4>, product<8>}, .max_tile = kMaxTile};

}  // namespace weir::cpu::WEIR_ISA
