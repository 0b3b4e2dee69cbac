#include "device/expand_copy.h"
#include "kernels/cuda/tiles.cuh"

namespace weir::bench {
namespace {

using cuda::TileKind;

struct Params {
  const char* weights;
  const char* scales;
  char* to;
  int64_t tiles;
};

// A warp has a tile.
__global__ void __launch_bounds__(256) expand_kernel(const Params p) {
  cuda::wait_for_previous();
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (tile >= p.tiles) return;
  cuda::ExpandedTile<TileKind::kQ4> expanded;
  expanded.load(p.weights + tile * cuda::tile_weight_bytes(TileKind::kQ4),
                p.scales + tile * cuda::tile_scale_bytes(TileKind::kQ4));
  char* to = p.to + tile * cuda::tile_weight_bytes(TileKind::kBf16) + 16 * (threadIdx.x % 32);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    uint32_t a[4];
    expanded.expand(a, step);
    *reinterpret_cast<uint4*>(to + 512 * step) = {a[0], a[1], a[2], a[3]};
  }
}

}  // namespace

void expand_copy(cuda::LaunchQueue& queue, const cuda::TileMatrix& w, int64_t count, char* to) {
  const int64_t tiles = count * w.row_tiles() * w.groups();
  queue.launch(expand_kernel, {dim3(static_cast<unsigned>((tiles + 7) / 8)), 256},
               Params{w.weights, w.scales, to, tiles});
}

}  // namespace weir::bench
