#include <chrono>
#include <cstdio>

#include "device/launch_floor.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::bench {
namespace {

using namespace weir::cuda;

constexpr int kLaunches = 240;
constexpr int kColumns = 2048;

struct Params {
  float* row;  // two rows that take turns
  int turn;
  int unused;
};

__global__ void empty_kernel(const Params) {
  wait_for_previous();
  let_next_start();
}

// As a norm does: read a row, sum over the block twice, write 16 values.
__global__ void __launch_bounds__(256) row_kernel(const Params p) {
  __shared__ float sums[8];
  wait_for_previous();
  let_next_start();
  const float4* in = reinterpret_cast<const float4*>(p.row + p.turn % 2 * kColumns) + 2 * threadIdx.x;
  const float4 a = in[0], b = in[1];
  float total = 0;
  for (int i = 0; i < 2; ++i) {
    const float sum = warp_sum(a.x * a.y + a.z * a.w + b.x * b.y + b.z * b.w + total);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    total = 0;
    for (const float s : sums) total += s;
    __syncthreads();
  }
  const unsigned column = blockIdx.x * 16 + threadIdx.x;
  if (threadIdx.x < 16 && column < kColumns) p.row[(p.turn + 1) % 2 * kColumns + column] = total * 1e-9f;
}

double time_chain(void (*kernel)(Params), unsigned blocks, float* row) {
  LaunchQueue queue;
  if (!queue.open().ok()) return 0;
  double best = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    queue.defer();
    for (int i = 0; i < kLaunches; ++i) queue.launch(kernel, {dim3(blocks), 256}, Params{row, i, 0});
    const auto start = std::chrono::steady_clock::now();
    queue.flush();
    cudaStreamSynchronize(queue.stream());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = elapsed.count() < best ? elapsed.count() : best;
  }
  return best / kLaunches;
}

}  // namespace

void print_launch_floor() {
  float* row = nullptr;
  if (cudaMalloc(&row, 2 * kColumns * sizeof(float)) != cudaSuccess) return;
  cudaMemset(row, 0, 2 * kColumns * sizeof(float));
  for (const unsigned blocks : {1u, 132u, 396u}) {
    std::printf("launch floor, %3u blocks: empty %5.2f us, row and two sums %5.2f us\n", blocks,
                1e6 * time_chain(empty_kernel, blocks, row), 1e6 * time_chain(row_kernel, blocks, row));
  }
  cudaFree(row);
}

}  // namespace weir::bench
