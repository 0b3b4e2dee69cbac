// Products with float activations: routers, and plain weights.
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/packed_lines.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// dot[i] = fma(w, x of column c, dot[i]) for byte `j` of each lane, which is column c of its row.
template <int j, int n>
WEIR_SIMD void add_column(F32x16* dot, I32x16 columns, const float* x) {
  const F32x16 w = to_f32(shift_right<8 * j>(columns) & set1_i32(255));
  repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = fma(w, set1(x[j * n + i]), dot[i]); });
}

// The same for the columns of some lines in ascending order.
template <int bits, int n>
WEIR_SIMD void add_lines(F32x16* dot, const uint8_t* lines, const float* x) {
  Lines<bits>::visit(lines, [&](int c, U8x64 w) WEIR_INLINE_LAMBDA {
    const I32x16 columns = lanes(w);
    add_column<0, n>(dot, columns, x + 4 * c * n);
    add_column<1, n>(dot, columns, x + 4 * c * n);
    add_column<2, n>(dot, columns, x + 4 * c * n);
    add_column<3, n>(dot, columns, x + 4 * c * n);
  });
}

template <int bits>
struct Affine {
  using L = Lines<bits>;

  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      const float* x = tile.x;
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t g = 0; g < tile.cols / tile.group; ++g) {
        F32x16 dot[n];
        repeat<n>([&](int i) WEIR_INLINE_LAMBDA { dot[i] = set1(0.0f); });
        for (int64_t k = 0; k < tile.group; k += L::kCols) {
          add_lines<bits, n>(dot, block, x);
          block += L::kLines * kLineBytes;
          x += L::kCols * n;
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

template <int bits>
void affine(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Affine<bits>::template Kernel>(out, block, tile);
}

template <class Column>
void plain(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Plain<Column>::template Kernel>(out, block, tile);
}

}  // namespace

extern constinit const FloatKernels kFloatKernels = {
    .products = {affine<2>, affine<3>, affine<4>, affine<8>, plain<Bf16Column>, plain<F32Column>},
    .max_tile = kMaxTile};

}  // namespace weir::cpu::WEIR_ISA
