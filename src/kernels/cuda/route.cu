// Routing: normed = RMSNorm(x), logits = normed router^T, the top_k largest of their softmax renormalised,
// and the shared expert's gate.
//
// Few rows: one cluster of sixteen blocks, each with 16 or 32 rows of the router (few_rows.cuh), whose
// weights it asks for before the wait. The blocks write their logits into the first one's shared memory,
// which chooses, one warp a row. So the layer's routing is one launch without a trip through global memory.
// The second block hands its rows of x on to the experts as they are staged.
// Bytes: the router once. Rounding: normed is bf16, the router's 8-bit values exact, logits and the rest
// float32. Ties go to the lower expert. Ceiling: latency; the matrix is 0.7 MB.
#include <algorithm>

#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kernels.h"

namespace weir::cuda {
namespace {

constexpr int kMaxExperts = 256;
constexpr int kOfLane = kMaxExperts / 32;
constexpr int kCluster = 16;
constexpr int kRowTiles = 2;  // of a block: all of 257 rows, and threads enough to norm

using Logits = float[kFewRows][kMaxExperts + 1];

struct Params {
  TileMatrix router;
  const float* x;
  const float* gain;
  __nv_bfloat16* normed;
  char* staged;         // of few rows, or null
  const float* logits;  // of many rows
  int32_t* chosen;
  float* weights;
  int32_t rows;
  int32_t parts;
  int32_t experts;
  int32_t top_k;
  float epsilon;
};

// Whole numbers in the order of the floats.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(uint32_t u) {
  return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
}

// One warp chooses for row t. Lane l holds the logits of experts l, l + 32, ...
__device__ void choose(const Params& p, int t, const float* logits) {
  constexpr uint32_t kAll = 0xffffffffu;
  const int lane = threadIdx.x % 32;
  uint32_t mine[kOfLane];
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int e = lane + 32 * k;
    mine[k] = e < p.experts ? ordered(logits[e]) : 0;
  }
  float top = 0, total = 0, value_here = 0;
  int expert_here = 0;
  for (int s = 0; s < p.top_k; ++s) {
    uint32_t best = 0;
#pragma unroll
    for (int k = 0; k < kOfLane; ++k) best = max(best, mine[k]);
    best = __reduce_max_sync(kAll, best);
    uint32_t expert = kMaxExperts;
#pragma unroll
    for (int k = kOfLane - 1; k >= 0; --k) {
      if (mine[k] == best) expert = lane + 32 * k;
    }
    expert = __reduce_min_sync(kAll, expert);
#pragma unroll
    for (int k = 0; k < kOfLane; ++k) {
      if (expert == static_cast<uint32_t>(lane + 32 * k)) mine[k] = 0;
    }
    const float value = unordered(best);
    if (s == 0) top = value;
    const float weight = expf(value - top);
    total += weight;
    if (lane == s) value_here = weight, expert_here = static_cast<int>(expert);
  }
  int32_t* chosen = p.chosen + static_cast<size_t>(t) * (p.top_k + 1);
  float* weights = p.weights + static_cast<size_t>(t) * (p.top_k + 1);
  if (lane < p.top_k) {
    chosen[lane] = expert_here;
    weights[lane] = value_here / total;
  }
  if (lane == 0) {
    chosen[p.top_k] = p.experts;
    weights[p.top_k] = sigmoid(logits[p.experts]);
  }
}

// Shared memory: the warps' parts, x, the sums.
template <TileKind kKind>
__global__ void __launch_bounds__(512) route_few_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Logits logits;
  __shared__ uint64_t all_there;  // of the first block's logits
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int row_tile = blockIdx.x + warp / p.parts * kCluster;
  const bool has_rows = row_tile < p.router.row_tiles();
  const Part part = part_of(p.router, memory + warp * part_bytes(kKind), warp % p.parts);
  if (has_rows) fetch_part<kKind>(p.router, part, row_tile);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    barrier_init(shared_address(&all_there), 1);
    barrier_init_done();
    barrier_expect(shared_address(&all_there), p.rows * p.router.rows * static_cast<int>(sizeof(float)));
  }
  arrive_in_cluster();
  const StagedRows<kKind> x(memory + warps * part_bytes(kKind), p.rows, p.router.cols);
  x.clear_zeros(threadIdx.x);
  const RowNorm norm(p.gain, p.router.cols);
  wait_for_previous();
  let_next_start();
  norm.stage(x, p.x, nullptr);
  __syncthreads();
  RowNorm::find_factors(x, p.epsilon);
  float acc[2][2] = {};
  if (has_rows) dot_part<kKind>(acc, part, x);
  float* sums = reinterpret_cast<float*>(memory + warps * part_bytes(kKind) + staged_bytes(p.rows, x.cols));
  store_part<kKind>(sums, acc, warp);
  __syncthreads();
  wait_for_cluster();  // the first block has started
  const uint32_t chosen_from = in_first_block(shared_address(&logits)),
                 barrier = in_first_block(shared_address(&all_there));
  constexpr int kRows = kRowTiles * kTileRows;
  for (int i = threadIdx.x; i < kRows * p.rows; i += blockDim.x) {
    const int t = i / kRows, r = i % kRows, tile = r / kTileRows;
    const int row = (blockIdx.x + tile * kCluster) * kTileRows + r % kTileRows;
    if (row >= p.router.rows) continue;
    const float* first = sums + (tile * p.parts * kFewRows + t) * kTileRows + r % kTileRows;
    store_async(chosen_from + static_cast<uint32_t>(&logits[t][row] - &logits[0][0]) * 4,
                RowNorm::factor(x, t) * sum_of_parts(first, p.parts), barrier);
  }
  if (blockIdx.x == 0) {
    barrier_wait(shared_address(&all_there), 0);
    for (int t = warp; t < p.rows; t += warps) choose(p, t, logits[t]);
  }
  if (blockIdx.x != 1) return;
  for (int t = 0; t < p.rows; ++t) {
    const size_t at = static_cast<size_t>(t) * x.cols;
    norm.write(p.normed + at, p.x + at, x.cols, RowNorm::factor(x, t));
    if constexpr (has_planes(kKind)) {
      if (p.staged != nullptr) x.hand_on(p.staged, t, RowNorm::factor(x, t));
    }
  }
}

__global__ void __launch_bounds__(128) choose_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const int t = blockIdx.x * 4 + threadIdx.x / 32;
  if (t < p.rows) choose(p, t, p.logits + static_cast<size_t>(t) * (p.experts + 1));
}

Params params_of(const RouteCall& call) {
  Params p{};
  p.router = call.router;
  p.x = call.x;
  p.gain = call.gain;
  p.normed = call.normed;
  p.logits = call.logits;
  p.chosen = call.chosen;
  p.weights = call.weights;
  p.rows = static_cast<int32_t>(call.rows);
  p.parts = parts_of(call.router.cols);
  p.experts = static_cast<int32_t>(call.experts);
  p.top_k = static_cast<int32_t>(call.top_k);
  p.staged = call.staged;
  p.epsilon = call.epsilon;
  return p;
}

}  // namespace

void route_few(LaunchQueue& queue, const RouteCall& call) {
  const Params p = params_of(call);
  Shape shape;
  const int warps = p.parts * kRowTiles;
  shape.blocks = dim3(kCluster);
  shape.cluster = kCluster;
  shape.threads = 32 * warps;
  shape.shared =
      warps * (part_bytes(call.router.kind) + sums_bytes()) + staged_bytes(p.rows, call.router.cols);
  switch (call.router.kind) {
    case TileKind::kQ4:
      return queue.launch(route_few_kernel<TileKind::kQ4>, shape, p);
    case TileKind::kQ8:
      return queue.launch(route_few_kernel<TileKind::kQ8>, shape, p);
    case TileKind::kBf16:
      return queue.launch(route_few_kernel<TileKind::kBf16>, shape, p);
  }
}

void choose_experts(LaunchQueue& queue, const RouteCall& call) {
  queue.launch(choose_kernel, {dim3(static_cast<unsigned>((call.rows + 3) / 4)), 128}, params_of(call));
}

}  // namespace weir::cuda
