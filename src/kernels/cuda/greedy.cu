// The next token on the device: the lowest id among the largest logits of one row.
//
// Blocks take slices of the vocabulary; the one that finishes last compares their winners, writes the token
// into the pass's own arrays and moves the position on, so that the recorded graph can run again without the
// host. Bytes: the logits once (1 MB, from L2).
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

struct Best {
  float value;
  int id;
};

__device__ __forceinline__ Best better(Best a, Best b) {
  if (b.value > a.value || (b.value == a.value && b.id < a.id)) return b;
  return a;
}

__device__ __forceinline__ Best best_of_warp(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    best = better(
        best, {__shfl_xor_sync(0xffffffffu, best.value, step), __shfl_xor_sync(0xffffffffu, best.id, step)});
  }
  return best;
}

__device__ Best best_of_block(Best best, Best* of_warp) {
  best = best_of_warp(best);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) best = better(best, of_warp[w]);
  return best;
}

__global__ void __launch_bounds__(256) greedy_kernel(const GreedyCall p) {
  __shared__ Best of_warp[8], of_warp_again[8];
  __shared__ bool last;
  wait_for_previous();
  let_next_start();
  Best best{-INFINITY, INT32_MAX};
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.vocabulary; i += gridDim.x * blockDim.x) {
    best = better(best, {p.logits[i], static_cast<int>(i)});
  }
  best = best_of_block(best, of_warp);
  if (threadIdx.x == 0) {
    p.best[blockIdx.x] = best.value;
    p.best_id[blockIdx.x] = best.id;
    __threadfence();
    last = atomicAdd(p.ticket, 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  best = {-INFINITY, INT32_MAX};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
    best = better(best, {__ldcg(p.best + b), __ldcg(p.best_id + b)});
  }
  best = best_of_block(best, of_warp_again);
  if (threadIdx.x > 0) return;
  *p.token = best.id;
  *p.position += 1;
  p.segment->position += 1;
  p.chosen[*p.step] = best.id;
  *p.step += 1;
  *p.ticket = 0;
}

}  // namespace

void choose_greedily(LaunchQueue& queue, const GreedyCall& call) {
  queue.launch(greedy_kernel, {dim3(kGreedyBlocks), 256}, call);
}

}  // namespace weir::cuda
