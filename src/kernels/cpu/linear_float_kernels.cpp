// Products with float activations: routers, and plain weights.
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// dot[i] = fma(w, x of column c, dot[i]) for the columns of a line in ascending order. In a line each lane is
// a little-endian int32 of its row's bytes.
template <int shift, int bits_each, int n>
WEIR_SIMD void add_column(F32x16* dot, I32x16 line, const float* x) {
  const F32x16 w = to_f32(shift_right<shift>(line) & set1_i32((1 << bits_each) - 1));
  repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = fma(w, set1(x[i]), dot[i]); });
}

template <int n>
struct NibbleLines {
  static constexpr int64_t kCols = 8;

  WEIR_SIMD void add(F32x16* dot, const uint8_t* p, const float* x) {
    const I32x16 line = lanes(load_u8x64(p));
    add_column<0, 4, n>(dot, line, x);
    add_column<8, 4, n>(dot, line, x + n);
    add_column<16, 4, n>(dot, line, x + 2 * n);
    add_column<24, 4, n>(dot, line, x + 3 * n);
    add_column<4, 4, n>(dot, line, x + 4 * n);
    add_column<12, 4, n>(dot, line, x + 5 * n);
    add_column<20, 4, n>(dot, line, x + 6 * n);
    add_column<28, 4, n>(dot, line, x + 7 * n);
  }
};

template <int n>
struct ByteLines {
  static constexpr int64_t kCols = 4;

  WEIR_SIMD void add(F32x16* dot, const uint8_t* p, const float* x) {
    const I32x16 line = lanes(load_u8x64(p));
    add_column<0, 8, n>(dot, line, x);
    add_column<8, 8, n>(dot, line, x + n);
    add_column<16, 8, n>(dot, line, x + 2 * n);
    add_column<24, 8, n>(dot, line, x + 3 * n);
  }
};

template <template <int> class Lines>
struct Affine {
  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      const float* x = tile.x;
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t g = 0; g < tile.cols / tile.group; ++g) {
        F32x16 dot[n];
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = set1(0.0f); });
        for (int64_t k = 0; k < tile.group; k += Lines<n>::kCols) {
          Lines<n>::add(dot, block, x);
          block += 64;
          x += Lines<n>::kCols * n;
        }
        const GroupScales end = load_scales(block, tile.wide_scales);
        block += scales_bytes(tile.wide_scales);
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA {
          acc[i] = fma(end.scales, dot[i], acc[i]);
          acc[i] = fma(end.biases, set1(tile.sum[g * n + i]), acc[i]);
        });
      }
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { store(out + kBlockRows * i, acc[i]); });
    }
  };
};

struct Bf16Column {
  using Value = uint16_t;
  WEIR_SIMD F32x16 read(const Value* p) { return load_bf16(p); }
};
struct F32Column {
  using Value = float;
  WEIR_SIMD F32x16 read(const Value* p) { return load(p); }
};

template <class Column>
struct Plain {
  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      const auto* column = reinterpret_cast<const typename Column::Value*>(block);
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t c = 0; c < tile.cols; ++c) {
        const F32x16 w = Column::read(column + kBlockRows * c);
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = fma(w, set1(tile.x[c * n + i]), acc[i]); });
      }
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { store(out + kBlockRows * i, acc[i]); });
    }
  };
};

template <template <int> class Lines>
void affine(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Affine<Lines>::template Kernel>(out, block, tile);
}

template <class Column>
void plain(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Plain<Column>::template Kernel>(out, block, tile);
}

}  // namespace

extern constinit const FloatKernels kFloatKernels = {affine<NibbleLines>, affine<ByteLines>,
                                                     plain<Bf16Column>, plain<F32Column>, kMaxTile};

}  // namespace weir::cpu::WEIR_ISA
