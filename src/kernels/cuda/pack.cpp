#include "kernels/cuda/pack.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/repack.h"

namespace weir::cuda {
namespace {

// Widest matrix that the kernels for few rows take: eight parts of 512 columns.
constexpr int64_t kMaxCols = 4096;

bool is_q4(const Encoding& e) {
  return e.bits == 4 && e.group == 64 && e.dtype == Dtype::kBf16;
}

// The one format that holds all of them (tile_matrix.h).
TileKind common_kind(std::span<const Encoding> encodings) {
  if (std::all_of(encodings.begin(), encodings.end(), is_q4)) return TileKind::kQ4;
  const auto affine = [](const Encoding& e) { return e.affine(); };
  return std::all_of(encodings.begin(), encodings.end(), affine) ? TileKind::kQ8 : TileKind::kBf16;
}

Status check_size(int64_t rows, int64_t cols) {
  if (cols > kMaxCols || cols % 32 != 0 || rows > std::numeric_limits<int32_t>::max() / 2) {
    return Error{Code::kUnsupported,
                 "a matrix of " + std::to_string(rows) + " x " + std::to_string(cols) +
                     " is beyond the CUDA kernels, which take up to " + std::to_string(kMaxCols) +
                     " columns, a multiple of 32",
                 "use --device cpu"};
  }
  return {};
}

size_t tiles_of(const TileMatrix& m) {
  return static_cast<size_t>(m.row_tiles()) * static_cast<size_t>(m.groups());
}

TileMatrix shape_of(TileKind kind, int64_t rows, int64_t cols) {
  TileMatrix m;
  m.kind = kind;
  m.rows = static_cast<int32_t>(rows);
  m.cols = static_cast<int32_t>(cols);
  return m;
}

// Memory for `count` such matrices; points the first at it.
Result<Buffer> allocate_tiles(LaunchQueue& queue, TileMatrix& m, size_t count) {
  const size_t tiles = tiles_of(m) * count, weights = tiles * static_cast<size_t>(tile_weight_bytes(m.kind));
  WEIR_TRY(Buffer memory,
           allocate_device(queue, weights + tiles * static_cast<size_t>(tile_scale_bytes(m.kind))));
  m.weights = static_cast<const char*>(memory.data());
  m.scales = m.weights + weights;
  return memory;
}

TileMatrix expert_of(const TileMatrix& first, size_t expert) {
  TileMatrix m = first;
  m.weights += expert * tiles_of(m) * static_cast<size_t>(tile_weight_bytes(m.kind));
  m.scales += expert * tiles_of(m) * static_cast<size_t>(tile_scale_bytes(m.kind));
  return m;
}

const char* kind_name(TileKind kind) {
  return kind == TileKind::kQ4 ? "q4" : kind == TileKind::kQ8 ? "q8" : "bf16";
}

}  // namespace

std::string TileLinear::kernel() const {
  return std::string("sm90/linear_") + kind_name(tiles.kind);
}
std::string TileExperts::kernel() const {
  return std::string("sm90/experts_") + kind_name(tiles.up.kind);
}

Result<std::unique_ptr<Linear>> pack_linear(LaunchQueue& queue, Staging& staging,
                                            std::span<const Matrix> parts) {
  std::vector<Encoding> encodings;
  int64_t rows = 0;
  for (const Matrix& part : parts) {
    encodings.push_back(part.encoding);
    rows += part.rows;
  }
  WEIR_RETURN_IF_ERROR(check_size(rows, parts.front().cols));
  auto linear = std::make_unique<TileLinear>();
  linear->tiles = shape_of(common_kind(encodings), rows, parts.front().cols);
  WEIR_TRY(linear->memory, allocate_tiles(queue, linear->tiles, 1));
  int64_t first = 0;
  for (const Matrix& part : parts) {
    WEIR_RETURN_IF_ERROR(staging.upload(part));
    repack_rows(queue, linear->tiles, first, staging.first());
    first += part.rows;
  }
  WEIR_RETURN_IF_ERROR(queue.take_error());
  return std::unique_ptr<Linear>(std::move(linear));
}

Result<std::unique_ptr<Experts>> pack_experts(LaunchQueue& queue, Staging& staging,
                                              std::span<const ExpertSource> experts) {
  std::vector<Encoding> up, down;
  for (const ExpertSource& e : experts) {
    up.push_back(e.gate.encoding);
    up.push_back(e.up.encoding);
    down.push_back(e.down.encoding);
  }
  const int64_t hidden = experts.front().gate.cols, wide = experts.front().gate.rows;
  WEIR_RETURN_IF_ERROR(check_size(2 * wide, hidden));
  WEIR_RETURN_IF_ERROR(check_size(hidden, wide));
  auto packed = std::make_unique<TileExperts>();
  ExpertTiles& tiles = packed->tiles;
  tiles.count = static_cast<int64_t>(experts.size());
  tiles.intermediate = wide;
  tiles.up = shape_of(common_kind(up), 2 * wide, hidden);
  tiles.down = shape_of(common_kind(down), hidden, wide);
  WEIR_TRY(packed->up_memory, allocate_tiles(queue, tiles.up, experts.size()));
  WEIR_TRY(packed->down_memory, allocate_tiles(queue, tiles.down, experts.size()));
  for (size_t e = 0; e < experts.size(); ++e) {
    WEIR_RETURN_IF_ERROR(staging.upload(experts[e].gate, &experts[e].up));
    repack_gate_up(queue, expert_of(tiles.up, e), staging.first(), staging.second());
    WEIR_RETURN_IF_ERROR(staging.upload(experts[e].down));
    repack_rows(queue, expert_of(tiles.down, e), 0, staging.first());
  }
  WEIR_RETURN_IF_ERROR(queue.take_error());
  return std::unique_ptr<Experts>(std::move(packed));
}

Result<std::unique_ptr<Embedding>> pack_embedding(LaunchQueue& queue, const Matrix& matrix) {
  auto embedding = std::make_unique<RawEmbedding>();
  WEIR_TRY(embedding->memory, allocate_device(queue, raw_bytes(matrix)));
  embedding->matrix = upload_raw(queue, embedding->memory.data(), matrix);
  WEIR_RETURN_IF_ERROR(queue.take_error());
  return std::unique_ptr<Embedding>(std::move(embedding));
}

}  // namespace weir::cuda
