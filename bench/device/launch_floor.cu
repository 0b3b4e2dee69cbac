#include <chrono>
#include <cstdio>

#include "device/launch_floor.h"
#include "kernels/cuda/kernels.h"
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

// Two sums over the block, the second of which needs the first.
__device__ __forceinline__ float two_block_sums(const float4& a, const float4& b, float (&sums)[8]) {
  float total = 0;
  for (int i = 0; i < 2; ++i) {
    const float sum = warp_sum(a.x * a.y + a.z * a.w + b.x * b.y + b.z * b.w + total);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    total = 0;
    for (const float s : sums) total += s;
    __syncthreads();
  }
  return total;
}

// As a norm does: read a row, sum over the block twice, write 16 values.
__global__ void __launch_bounds__(256) row_kernel(const Params p) {
  __shared__ float sums[8];
  wait_for_previous();
  let_next_start();
  const float4* in = reinterpret_cast<const float4*>(p.row + p.turn % 2 * kColumns) + 2 * threadIdx.x;
  const float total = two_block_sums(in[0], in[1], sums);
  const unsigned column = blockIdx.x * 16 + threadIdx.x;
  if (threadIdx.x < 16 && column < kColumns) p.row[(p.turn + 1) % 2 * kColumns + column] = total * 1e-9f;
}

// The same 240 times in one launch of as many blocks as run at once. How a block's values reach the others:
enum class Handover {
  kCounter,  // a counter that every block raises once its values are visible, and waits for
  kValues,   // memory that is all ones until the values lie there; readers look until they do
};

struct ResidentParams {
  float* rows;  // [kLaunches + 1, kColumns]
  unsigned* counter;
};

__device__ __forceinline__ bool is_missing(const float4& v) {
  const auto missing = [](float x) { return __float_as_uint(x) == 0xffffffffu; };
  return missing(v.x) || missing(v.y) || missing(v.z) || missing(v.w);
}

template <Handover kHandover>
__global__ void __launch_bounds__(256) resident_kernel(const ResidentParams p) {
  __shared__ float sums[8];
  for (int turn = 0; turn < kLaunches; ++turn) {
    const float4* in = reinterpret_cast<const float4*>(p.rows + turn * kColumns) + 2 * threadIdx.x;
    float4 a = __ldcg(in), b = __ldcg(in + 1);
    if constexpr (kHandover == Handover::kValues) {
      while (is_missing(a) || is_missing(b)) a = __ldcv(in), b = __ldcv(in + 1);
    }
    const float total = two_block_sums(a, b, sums);
    const unsigned column = blockIdx.x * 16 + threadIdx.x;
    if (threadIdx.x < 16 && column < kColumns) __stcg(p.rows + (turn + 1) * kColumns + column, total * 1e-9f);
    if constexpr (kHandover == Handover::kCounter) {
      __syncthreads();
      if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(p.counter, 1);
        unsigned raised = 0;
        do {
          asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(p.counter) : "memory");
        } while (raised < gridDim.x * (turn + 1));
      }
      __syncthreads();
    }
  }
}

double time_resident(void (*kernel)(ResidentParams)) {
  ResidentParams p{};
  constexpr size_t kRows = static_cast<size_t>(kLaunches + 1) * kColumns * sizeof(float);
  if (cudaMalloc(&p.rows, kRows) != cudaSuccess || cudaMalloc(&p.counter, 4) != cudaSuccess) return 0;
  double best = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    cudaMemset(p.rows, 0xff, kRows);
    cudaMemset(p.rows, 0, kColumns * sizeof(float));
    cudaMemset(p.counter, 0, 4);
    void* arguments[] = {&p};
    cudaDeviceSynchronize();
    const auto start = std::chrono::steady_clock::now();
    cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(kMultiprocessors), dim3(256),
                                arguments, 0, nullptr);
    cudaDeviceSynchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = elapsed.count() < best ? elapsed.count() : best;
  }
  cudaFree(p.rows);
  cudaFree(p.counter);
  return best / kLaunches;
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
  std::printf("the same in one launch of %u blocks: by a counter %5.2f us, by the values %5.2f us\n",
              kMultiprocessors, 1e6 * time_resident(resident_kernel<Handover::kCounter>),
              1e6 * time_resident(resident_kernel<Handover::kValues>));
}

}  // namespace weir::bench
