// Sorting rows by expert, on the device, for the many-row products; and adding up what the experts gave.
//
// count: a block has an expert and counts its assignments. group: the same block knows from all counts where
// its share starts, and writes its assignments there in order of rows, and its tiles. combine: x_t += sum
// over slots, in slot order. Bytes: the routing twice a block, from L2; contributions (bf16) once. All sums
// are in a fixed order, so results repeat bit for bit.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct Params {
  const int32_t* chosen;
  int32_t* counts;
  int32_t* order;
  ExpertTile* tiles;
  int32_t* tile_count;
  int32_t assignments;
  int32_t tile_rows;
};

// Assignments [first, end) of this warp, a share in order.
struct Share {
  int first;
  int end;
};
__device__ __forceinline__ Share share_of(int assignments) {
  const int each = (assignments + kThreads - 1) / kThreads * 32, first = threadIdx.x / 32 * each;
  return {first, min(first + each, assignments)};
}

__device__ __forceinline__ int count_share(const Params& p, Share share, int expert) {
  int count = 0;
  for (int i = share.first + threadIdx.x % 32; i < share.end; i += 32) count += p.chosen[i] == expert;
  return static_cast<int>(__reduce_add_sync(0xffffffffu, static_cast<unsigned>(count)));
}

__global__ void __launch_bounds__(kThreads) count_kernel(const Params p) {
  __shared__ int counts[kWarps];
  wait_for_previous();
  let_next_start();
  const int count = count_share(p, share_of(p.assignments), blockIdx.x);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x > 0) return;
  int total = 0;
  for (const int c : counts) total += c;
  p.counts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads) group_kernel(const Params p) {
  __shared__ int of_warp[kWarps];
  __shared__ int before[2];  // assignments and tiles of the experts before
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, expert = blockIdx.x;
  wait_for_previous();
  let_next_start();
  if (threadIdx.x < 2) before[threadIdx.x] = 0;
  __syncthreads();
  int rows = 0, tiles = 0;
  for (int e = threadIdx.x; e < expert; e += kThreads) {
    rows += p.counts[e];
    tiles += (p.counts[e] + p.tile_rows - 1) / p.tile_rows;
  }
  if (rows > 0) atomicAdd(&before[0], rows), atomicAdd(&before[1], tiles);
  const Share share = share_of(p.assignments);
  const int count = count_share(p, share, expert);
  if (lane == 0) of_warp[warp] = count;
  __syncthreads();
  int at = before[0];
  for (int w = 0; w < warp; ++w) at += of_warp[w];
  for (int first = share.first; first < share.end; first += 32) {
    const int i = first + lane;
    const bool mine = i < share.end && p.chosen[i] == expert;
    const uint32_t all = __ballot_sync(0xffffffffu, mine);
    if (mine) p.order[at + __popc(all & ((1u << lane) - 1))] = i;
    at += __popc(all);
  }
  const int total = p.counts[expert], pieces = (total + p.tile_rows - 1) / p.tile_rows;
  for (int k = threadIdx.x; k < pieces; k += kThreads) {
    p.tiles[before[1] + k] = {expert, before[0] + k * p.tile_rows, min(p.tile_rows, total - k * p.tile_rows),
                              0};
  }
  if (threadIdx.x == 0 && expert == static_cast<int>(gridDim.x) - 1) *p.tile_count = before[1] + pieces;
}

struct CombineParams {
  float* x;
  const float* weights;
  const __nv_bfloat16* contributions;
  int32_t slots;
  int32_t hidden;
};

// A block has a row, a thread two of its columns at a time.
__global__ void __launch_bounds__(kThreads) combine_kernel(const CombineParams p) {
  wait_for_previous();
  let_next_start();
  const size_t row = blockIdx.x;
  const float* weights = p.weights + row * p.slots;
  for (int c = 2 * threadIdx.x; c < p.hidden; c += 2 * kThreads) {
    float low = 0, high = 0;
    for (int s = 0; s < p.slots; ++s) {
      const uint32_t pair =
          *reinterpret_cast<const uint32_t*>(p.contributions + (row * p.slots + s) * p.hidden + c);
      low = fmaf(weights[s], low_float(pair), low);
      high = fmaf(weights[s], high_float(pair), high);
    }
    float2* x = reinterpret_cast<float2*>(p.x + row * p.hidden + c);
    const float2 old = *x;
    *x = {old.x + low, old.y + high};
  }
}

}  // namespace

void group_by_expert(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call) {
  Params p{};
  p.chosen = call.chosen;
  p.counts = grouping.counts;
  p.order = grouping.order;
  p.tiles = grouping.tiles;
  p.tile_count = grouping.tile_count;
  p.assignments = static_cast<int32_t>(call.rows * call.slots);
  p.tile_rows = static_cast<int32_t>(grouping.tile_rows);
  const Shape shape{dim3(static_cast<unsigned>(call.experts.count)), kThreads};
  queue.launch(count_kernel, shape, p);
  queue.launch(group_kernel, shape, p);
}

void combine_experts(LaunchQueue& queue, const ExpertsCall& call, const __nv_bfloat16* contributions,
                     int64_t hidden) {
  queue.launch(combine_kernel, {dim3(static_cast<unsigned>(call.rows)), kThreads},
               CombineParams{call.x, call.weights, contributions, static_cast<int32_t>(call.slots),
                             static_cast<int32_t>(hidden)});
}

}  // namespace weir::cuda
