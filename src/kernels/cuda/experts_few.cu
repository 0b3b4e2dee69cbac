// Experts, few rows. A warp belongs to output neurons, not to an expert: no row is sorted, padded or
// gathered.
//
// up: activated[t, s] = silu(gate x_t) (up x_t). A block has one row t, one slot s and 8 neurons; a tile's
// rows are their 8 gates and 8 ups, so that a lane finds both of a neuron in its own registers' sums. The
// shared expert's weights are asked for before the wait, the others' as soon as the routing is known. down:
// x_t += sum over s of weight (down activated[t, s]), summed in slot order. A block has one row t and 16
// neurons, a warp one slot (and 512 columns). The routing is two kernels old, so all weights are asked for
// before the wait. Bytes: the chosen experts' weights once a row. Rounding: activations bf16, then 16-bit
// whole numbers a group (staged_rows.cuh); sums float32, x float32. Ceiling: memory bandwidth.
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kernels.h"

namespace weir::cuda {
namespace {

constexpr int kMaxSlots = 16;

struct Params {
  TileMatrix w;  // of one expert
  const int32_t* chosen;
  const float* weights;
  const __nv_bfloat16* in;
  const char* staged;  // up: rows as norm_route has staged them, or null
  __nv_bfloat16* activated;
  float* x;
  int32_t slots;
  int32_t parts;
  int32_t shared_expert;
  int32_t intermediate;
  int32_t early;  // down: the routing may be read before the wait
  int32_t unused;
};

__device__ __forceinline__ TileMatrix expert_of(const TileMatrix& first, TileKind kind, int expert) {
  TileMatrix w = first;
  const size_t tiles = static_cast<size_t>(expert) * w.row_tiles() * w.groups();
  w.weights += tiles * tile_weight_bytes(kind);
  w.scales += tiles * tile_scale_bytes(kind);
  return w;
}

template <TileKind kKind>
__global__ void __launch_bounds__(256) experts_up_few_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int slot = p.slots - 1 - static_cast<int>(blockIdx.y), row = blockIdx.z;  // the shared expert first
  const bool shared_expert = slot == p.slots - 1;
  const Part part = part_of(p.w, memory + warp * part_bytes(kKind), warp);
  if (shared_expert) fetch_part<kKind>(expert_of(p.w, kKind, p.shared_expert), part, blockIdx.x);
  const StagedRows<kKind> x(memory + warps * part_bytes(kKind), 1, p.w.cols);
  x.clear_zeros(threadIdx.x);
  wait_for_previous();
  let_next_start();
  const int expert = shared_expert ? p.shared_expert : p.chosen[row * p.slots + slot];
  // Staged rows are asked for before the weights, which wait for the routing.
  if constexpr (has_planes(kKind)) {
    if (p.staged != nullptr) x.take_over(p.staged, row);
  }
  if (shared_expert) {
    copy_async_commit();
  } else {
    fetch_part<kKind>(expert_of(p.w, kKind, expert), part, blockIdx.x);
  }
  if (p.staged != nullptr) {
    copy_async_wait<1>();
  } else {
    stage_row(x, 0, p.in + static_cast<size_t>(row) * p.w.cols, threadIdx.x, blockDim.x);
  }
  __syncthreads();
  float acc[2][2] = {};
  dot_part<kKind>(acc, part, x);
  float* sums = reinterpret_cast<float*>(memory + warps * part_bytes(kKind) + staged_bytes(1, p.w.cols));
  store_part<kKind>(sums, acc, warp);
  __syncthreads();
  const int neuron = 8 * blockIdx.x + threadIdx.x;
  if (threadIdx.x >= 8 || neuron >= p.intermediate) return;
  const float gate = sum_of_parts(sums + threadIdx.x, p.parts),
              up = sum_of_parts(sums + 8 + threadIdx.x, p.parts);
  p.activated[(static_cast<size_t>(row) * p.slots + slot) * p.intermediate + neuron] =
      __float2bfloat16_rn(silu(gate) * up);
}

template <TileKind kKind>
__global__ void __launch_bounds__(512) experts_down_few_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ float weights[kMaxSlots];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int slot = warp / p.parts, row = blockIdx.y;
  const int assignment = row * p.slots + slot;
  const Part part = part_of(p.w, memory + warp * part_bytes(kKind), warp % p.parts);
  if (p.early) fetch_part<kKind>(expert_of(p.w, kKind, p.chosen[assignment]), part, blockIdx.x);
  // Each warp stages its own slot's row, whole: at 512 columns a slot has one warp.
  const int staged = staged_bytes(1, p.w.cols);
  const StagedRows<kKind> x(memory + warps * part_bytes(kKind) + warp * staged, 1, p.w.cols);
  x.clear_zeros(threadIdx.x % 32);
  wait_for_previous();
  let_next_start();
  if (!p.early) fetch_part<kKind>(expert_of(p.w, kKind, p.chosen[assignment]), part, blockIdx.x);
  const int neuron = kTileRows * blockIdx.x + threadIdx.x;
  const bool finishes = threadIdx.x < kTileRows && neuron < p.w.rows;
  float* result = p.x + static_cast<size_t>(row) * p.w.rows + neuron;
  const float before = finishes ? *result : 0.0f, weight = p.weights[assignment];
  stage_row(x, 0, p.in + static_cast<size_t>(assignment) * p.w.cols, threadIdx.x % 32, 32);
  if (threadIdx.x % 32 == 0) weights[slot] = weight;  // behind the staging, whose loads would wait for it
  __syncwarp();
  float acc[2][2] = {};
  dot_part<kKind>(acc, part, x);
  float* sums = reinterpret_cast<float*>(memory + warps * (part_bytes(kKind) + staged));
  store_part<kKind>(sums, acc, warp);
  __syncthreads();
  if (!finishes) return;
  float first_part[kMaxSlots], total = 0;
#pragma unroll
  for (int s = 0; s < kMaxSlots; ++s) {
    if (s < p.slots) first_part[s] = sums[s * p.parts * kFewRows * kTileRows + threadIdx.x];
  }
#pragma unroll
  for (int s = 0; s < kMaxSlots; ++s) {
    if (s >= p.slots) break;
    float sum = first_part[s];
    for (int k = 1; k < p.parts; ++k) sum += sums[(s * p.parts + k) * kFewRows * kTileRows + threadIdx.x];
    total = fmaf(weights[s], sum, total);
  }
  *result = before + total;
}

Params params_of(const ExpertsCall& call, const TileMatrix& w) {
  Params p{};
  p.w = w;
  p.chosen = call.chosen;
  p.weights = call.weights;
  p.activated = call.activated;
  p.x = call.x;
  p.slots = static_cast<int32_t>(call.slots);
  p.parts = parts_of(w.cols);
  p.shared_expert = static_cast<int32_t>(call.experts.count - 1);
  p.intermediate = static_cast<int32_t>(call.experts.intermediate);
  return p;
}

}  // namespace

void experts_up_few(LaunchQueue& queue, const ExpertsCall& call) {
  Params p = params_of(call, call.experts.up);
  p.in = call.normed;
  p.staged = p.w.kind == TileKind::kBf16 ? nullptr : call.staged;
  Shape shape;
  shape.blocks = dim3(p.w.row_tiles(), p.slots, static_cast<unsigned>(call.rows));
  shape.threads = 32 * p.parts;
  shape.shared = p.parts * (part_bytes(p.w.kind) + sums_bytes()) + staged_bytes(1, p.w.cols);
  switch (p.w.kind) {
    case TileKind::kQ4:
      return queue.launch(experts_up_few_kernel<TileKind::kQ4>, shape, p);
    case TileKind::kQ8:
      return queue.launch(experts_up_few_kernel<TileKind::kQ8>, shape, p);
    case TileKind::kBf16:
      return queue.launch(experts_up_few_kernel<TileKind::kBf16>, shape, p);
  }
}

void experts_down_few(LaunchQueue& queue, const ExpertsCall& call) {
  Params p = params_of(call, call.experts.down);
  p.in = call.activated;
  p.early = call.routing_is_settled ? 1 : 0;
  const int warps = p.slots * p.parts;
  Shape shape;
  shape.blocks = dim3(p.w.row_tiles(), static_cast<unsigned>(call.rows));
  shape.threads = 32 * warps;
  shape.shared = warps * (part_bytes(p.w.kind) + staged_bytes(1, p.w.cols) + sums_bytes());
  if (shape.blocks.x * shape.blocks.y <= kMultiprocessors) shape.shared = spread_out(shape.shared);
  switch (p.w.kind) {
    case TileKind::kQ4:
      return queue.launch(experts_down_few_kernel<TileKind::kQ4>, shape, p);
    case TileKind::kQ8:
      return queue.launch(experts_down_few_kernel<TileKind::kQ8>, shape, p);
    case TileKind::kBf16:
      return queue.launch(experts_down_few_kernel<TileKind::kBf16>, shape, p);
  }
}

}  // namespace weir::cuda
