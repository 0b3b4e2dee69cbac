// Products of affine weights with activations rounded to int8.
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/packed_lines.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

constexpr int64_t kSmallestGroup = 32;

template <int bits>
WEIR_SIMD auto open_sums(I32x16 acc) {
  if constexpr (bits <= 4) {
    return open_u4(acc);
  } else {
    return open_u8(acc);
  }
}

template <int bits>
struct Int8 {
  using L = Lines<bits>;
  static constexpr int64_t kBytes = L::kLines * kLineBytes;

  // Columns of one turn of the loop.
  static constexpr int64_t kCols = 4 * kQuads;
  static_assert(kSmallestGroup % kCols == 0 && kCols % L::kCols == 0);

  // dot[i] += kCols columns * activations; q is that of the first column.
  template <int n>
  WEIR_SIMD void add_columns(I32x16* dot, const uint8_t* lines, const int8_t* q) {
    decltype(open_sums<bits>(dot[0])) sums[n];
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA { sums[i] = open_sums<bits>(dot[i]); });
    repeat<kCols / L::kCols>([&](int u) WEIR_INLINE_LAMBDA {
      const uint8_t* first = lines + kBytes * u;
      repeat<L::kLines>([&](int l) WEIR_INLINE_LAMBDA { prefetch_weights(first + kLineBytes * l); });
      L::visit(first, [&](int c, U8x64 w) WEIR_INLINE_LAMBDA {
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA {
          add(sums[i], w, broadcast4(q + 4 * (n * (u * (L::kCols / 4) + c) + i)));
        });
      });
    });
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = close(dot[i], sums[i]); });
  }

  // Columns share a scale in groups of `group`; 0: of as many as the tile says.
  template <int group>
  struct Group {
    template <class F>
    WEIR_SIMD void for_turns(int64_t cols, F turn) {
      if constexpr (group > 0) {
        repeat<group / kCols>([&](int) WEIR_INLINE_LAMBDA { turn(); });
      } else {
        for (int64_t k = 0; k < cols; k += kCols) turn();
      }
    }

    template <int n>
    struct Kernel {
      static void run(float* out, const uint8_t* block, const Tile& tile) {
        const int64_t cols = group > 0 ? group : tile.group;
        const int8_t* q = tile.q;
        F32x16 acc[n];
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
        for (int64_t g = 0; g < tile.cols / cols; ++g) {
          I32x16 dot[n];
          repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = set1_i32(0); });
          for_turns(cols, [&]() WEIR_INLINE_LAMBDA {
            add_columns<n>(dot, block, q);
            block += kCols / L::kCols * kBytes;
            q += kCols * n;
          });
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
};

template <int bits>
void product(float* out, const uint8_t* block, const Tile& tile) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  // Sums of a tile and of its group do not both fit the registers of AVX2. With a length that is known those
  // of the group need not wait in memory: 6 % faster with 4 rows, 2 % with 5 (docs/kernels/cpu.md).
  if (tile.group == 64) return run_tile<Int8<bits>::template Group<64>::template Kernel>(out, block, tile);
#endif
  run_tile<Int8<bits>::template Group<0>::template Kernel>(out, block, tile);
}

}  // namespace

extern constinit const Int8Kernels kInt8Kernels = {
    .products = {product<2>, product<3>, product<4>, product<8>}, .max_tile = kMaxTile};

}  // namespace weir::cpu::WEIR_ISA
