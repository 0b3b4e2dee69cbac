// Products of affine weights with many rows of int8 activations, on AMX tiles; few rows go to the kernels of
// AVX-512 VNNI. The sums of a group are exact integers, and what is done with them is the same: so are the
// bits.
//
// A tile register holds up to 16 rows of 64 bytes. The right operand wants 4 consecutive columns of 16
// outputs in each row: the lines of a block of 16 weight rows as they lie there for kBytes, and for kNibbles
// after their two halves have been parted. The left operand is 16 rows of activations with 64 columns of a
// group each (32 where that is a group). The product has a row for each row of activations and a column for
// each weight row.
//
// Bounds. 16 x 16 x 64 multiply-adds take the tile unit 16 cycles. Around them are, for n rows of
// activations, 4 n float operations of 512 bits to scale the group (to float, scales, two fused
// multiply-adds) and for nibbles 24 operations to part them: two a cycle, so 2 n + 12 cycles, 44 for 16 rows,
// which are 745 operations a cycle.
#include <immintrin.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/packed_lines.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu {

namespace avx512_vnni {
extern const RowKernels kRowKernels;
extern const Int8Kernels kInt8Kernels;
extern const FloatKernels kFloatKernels;
extern const AttentionKernels kAttentionKernels;
extern const DeltaKernels kDeltaKernels;
extern const HeadKernels kHeadKernels;
}  // namespace avx512_vnni

namespace WEIR_ISA {
namespace {

constexpr int kTileRows = 16;

// Tiles of fewer rows are faster with vpdpbusd: docs/kernels/cpu.md has the measurement.
constexpr int64_t kFewestRows = 4;

// Tile registers 0 and 1 hold sums (16 rows of activations x 16 weight rows), 2 and 3 activations (16 rows of
// `cols` columns), 4 and 5 weights (cols / 4 rows of 16 x 4).
struct alignas(64) TileShapes {
  constexpr explicit TileShapes(int cols)
      : row_bytes{64, 64, static_cast<uint16_t>(cols), static_cast<uint16_t>(cols), 64, 64},
        rows{16, 16, 16, 16, static_cast<uint8_t>(cols / 4), static_cast<uint8_t>(cols / 4)} {}
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64);
constexpr TileShapes kShapes64(64), kShapes32(32);

void enter() {
  _tile_loadconfig(&kShapes64);
}

void leave() {
  _tile_release();
}

// A piece of `cols` columns as a tile wants it: in place for 8 bits, else in `room`.
template <int bits, int cols>
struct Piece {
  using L = Lines<bits>;
  static constexpr int kUnits = cols / L::kCols;
  static constexpr int64_t kUnitBytes = L::kLines * kLineBytes;
  static constexpr int64_t kBytes = kUnits * kUnitBytes;

  WEIR_SIMD void part(uint8_t* room, const uint8_t* piece) {
    repeat<kUnits * L::kLines>([&](int l) WEIR_INLINE_LAMBDA { prefetch_weights(piece + kLineBytes * l); });
    if constexpr (bits < 8) {
      repeat<kUnits>([&](int u) WEIR_INLINE_LAMBDA {
        L::visit(piece + kUnitBytes * u, [&](int i, U8x64 w) WEIR_INLINE_LAMBDA {
          _mm512_store_si512(room + kLineBytes * (u * L::kCols / 4 + i), w.v);
        });
      });
    }
  }
  WEIR_SIMD const uint8_t* lines(const uint8_t* room, const uint8_t* piece) {
    return bits < 8 ? room : piece;
  }
};

// A tile can neither be loaded from where a store is still on its way, nor its own stores be read at once. So
// weights are parted some pieces before they are multiplied, and sums are scaled one group after. The ring of
// parted pieces is 4 KiB, so that no store in it looks to the CPU like one to where a load is from.
constexpr int64_t kAhead = 2;
constexpr int64_t kRing = 4;
constexpr int64_t kRoom = kTileCols * kBlockRows;  // of a piece

// The groups of a block, in one or two pieces of `cols` columns.
template <class P, int cols, int pieces>
struct Groups {
  Groups(const uint8_t* at, const Tile& t)
      : tile(t),
        block(at),
        count(t.cols / t.group),
        bytes(pieces * P::kBytes + scales_bytes(t.wide_scales)) {}

  const Tile& tile;
  const uint8_t* block;
  const int64_t count;
  const int64_t bytes;  // of a group

  // Where piece p of group g is parted to.
  WEIR_SIMD uint8_t* place(int64_t g, int64_t p, uint8_t* ring) {
    return ring + (g * pieces + p) % kRing * kRoom;
  }

  WEIR_SIMD void part(const Groups& groups, int64_t g, uint8_t* ring) {
    if (g >= groups.count) return;
    for (int64_t p = 0; p < pieces; ++p) {
      P::part(place(g, p, ring), groups.block + g * groups.bytes + p * P::kBytes);
    }
  }

  // Odd groups and even ones have tile registers of their own, so that one need not wait for the other.
  template <int turn>
  WEIR_SIMD void multiply(int32_t* sums, const Groups& groups, int64_t g, uint8_t* ring) {
    const int8_t* q = groups.tile.q + g * groups.tile.group * groups.tile.count;
    const uint8_t* group = groups.block + g * groups.bytes;
#define WEIR_MULTIPLY(sums_tile, x_tile, w_tile)                                 \
  _tile_zero(sums_tile);                                                         \
  for (int64_t p = 0; p < pieces; ++p) {                                         \
    _tile_loadd(x_tile, q + p * cols * groups.tile.count, cols);                 \
    _tile_loadd(w_tile, P::lines(place(g, p, ring), group + p * P::kBytes), 64); \
    _tile_dpbsud(sums_tile, x_tile, w_tile);                                     \
  }                                                                              \
  _tile_stored(sums_tile, sums, 64)
    if constexpr (turn == 0) {
      WEIR_MULTIPLY(0, 2, 4);
    } else {
      WEIR_MULTIPLY(1, 3, 5);
    }
#undef WEIR_MULTIPLY
  }

  template <int n>
  WEIR_SIMD void scale(F32x16* acc, const Groups& groups, int64_t g, const int32_t* sums) {
    const Tile& tile = groups.tile;
    const uint8_t* scales = groups.block + g * groups.bytes + pieces * P::kBytes;
    const GroupScales end = load_scales(scales, tile.wide_scales);
    repeat<n>([&](int i) WEIR_INLINE_LAMBDA {
      const F32x16 dot = to_f32(load_i32(sums + kTileRows * i));
      acc[i] = fma(end.scales * set1(tile.scale[g * n + i]), dot, acc[i]);
      acc[i] = fma(end.biases, set1(tile.sum[g * n + i]), acc[i]);
    });
  }
};

template <class P, int cols, int pieces>
struct Amx {
  template <int n>
  struct Kernel {
    static void run(float* out, const uint8_t* block, const Tile& tile) {
      using G = Groups<P, cols, pieces>;
      alignas(64) uint8_t ring[kRing * kRoom];
      alignas(64) int32_t sums[2][kTileRows * kBlockRows];
      const G groups(block, tile);
      constexpr int64_t kGroupsAhead = kAhead / pieces;
      F32x16 acc[n];
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { acc[i] = set1(0.0f); });
      for (int64_t g = 0; g < kGroupsAhead; ++g) G::part(groups, g, ring);
      for (int64_t g = 0; g < groups.count; g += 2) {
        G::part(groups, g + kGroupsAhead, ring);
        G::template multiply<0>(sums[0], groups, g, ring);
        if (g > 0) G::template scale<n>(acc, groups, g - 1, sums[1]);
        if (g + 1 < groups.count) {
          G::part(groups, g + 1 + kGroupsAhead, ring);
          G::template multiply<1>(sums[1], groups, g + 1, ring);
          G::template scale<n>(acc, groups, g, sums[0]);
        }
      }
      G::template scale<n>(acc, groups, groups.count - 1, sums[(groups.count - 1) % 2]);
      repeat<n>([&](int i) WEIR_INLINE_LAMBDA { store(out + kBlockRows * i, acc[i]); });
    }
  };
};

template <class P, int cols, int pieces>
void run(float* out, const uint8_t* block, const Tile& tile) {
  run_tile<Amx<P, cols, pieces>::template Kernel, kTileRows, kFewestRows>(out, block, tile);
}

// Groups of 32 have their own tile shapes, the others those of enter.
template <int bits>
void multiply_tile(float* out, const uint8_t* block, const Tile& tile) {
  using Whole = Piece<bits, kTileCols>;
  if (tile.group == kTileCols) return run<Whole, kTileCols, 1>(out, block, tile);
  if (tile.group == 2 * kTileCols) return run<Whole, kTileCols, 2>(out, block, tile);
  _tile_loadconfig(&kShapes32);
  run<Piece<bits, 32>, 32, 1>(out, block, tile);
  _tile_loadconfig(&kShapes64);
}

template <int bits, Container container>
void product(float* out, const uint8_t* block, const Tile& tile) {
  if (tile.count < kFewestRows) {
    return avx512_vnni::kInt8Kernels.products[static_cast<int>(container)](out, block, tile);
  }
  multiply_tile<bits>(out, block, tile);
}

constexpr Int8Kernels kInt8Kernels = {
    .products = {product<2, Container::kBits2>, product<3, Container::kBits3>, product<4, Container::kBits4>,
                 product<8, Container::kBits8>},
    .max_tile = kTileRows,
    .tiles_from = kFewestRows,
    .rows_per_read = 48,
    .enter = enter,
    .leave = leave};

}  // namespace

extern constinit const CpuKernels kKernels = {avx512_vnni::kRowKernels,   kInt8Kernels,
                                              avx512_vnni::kFloatKernels, avx512_vnni::kAttentionKernels,
                                              avx512_vnni::kDeltaKernels, avx512_vnni::kHeadKernels};

}  // namespace WEIR_ISA
}  // namespace weir::cpu
