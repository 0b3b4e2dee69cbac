// How a weight matrix lies in GPU memory: in tiles of 16 rows x 64 columns, in the order in which the tensor
// cores take their left operand.
//
// Tile (r, g) of a matrix [rows, cols] is number r * groups + g. Lane l = 4 i + t of a warp owns rows i and
// i + 8; of each 16 columns it owns 2t, 2t + 1, 2t + 8, 2t + 9. For the four steps of 16 columns it finds its
// values
//   kQ4    in 16 bytes, tile * 512 + 16 l: one word a step, whose nibbles n and n + 4 are register n of the
//          operand. Scales: tile * 64 + 8 i holds scale, bias of row i and of row i + 8, all bf16.
//   kQ8    in 2 x 16 bytes: tile * 1024 + 16 l holds the low nibbles as kQ4 does, 512 bytes further are the
//          high ones. Scales, one for each 32 columns: tile * 256 + 128 h + 16 i, four float32.
//   kBf16  in 4 x 16 bytes, tile * 2048 + 512 s + 16 l: the operand itself.
// Rows and columns beyond the matrix are zero. A checkpoint's 4-bit matrices with groups of 64 and bf16
// scales become kQ4; other affine ones kQ8, exactly; all else, and stacks of both, kBf16, rounded.
#pragma once

#include <cstdint>

namespace weir::cuda {

enum class TileKind : int32_t { kQ4, kQ8, kBf16 };

inline constexpr int kTileRows = 16;
inline constexpr int kTileCols = 64;

constexpr int tile_weight_bytes(TileKind kind) {
  return kind == TileKind::kQ4 ? 512 : kind == TileKind::kQ8 ? 1024 : 2048;
}
constexpr int tile_scale_bytes(TileKind kind) {
  return kind == TileKind::kQ4 ? 64 : kind == TileKind::kQ8 ? 256 : 0;
}

struct TileMatrix {
  const char* weights = nullptr;
  const char* scales = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  TileKind kind = TileKind::kQ4;
  int32_t unused = 0;  // keeps the struct without padding: launches are compared byte by byte

  constexpr int row_tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  constexpr int groups() const { return (cols + kTileCols - 1) / kTileCols; }
};

}  // namespace weir::cuda
