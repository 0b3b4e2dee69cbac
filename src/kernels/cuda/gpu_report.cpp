#include "kernels/cuda/gpu_report.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device.h"

namespace weir {
namespace {

// The median of several large copies.
double copy_peak(size_t free_bytes) {
  constexpr size_t kLargest = size_t{1} << 30;
  constexpr int kCopies = 9;
  const size_t bytes = std::min(kLargest, free_bytes / 4);
  void *from = nullptr, *to = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  std::vector<float> milliseconds;
  if (cudaMalloc(&from, bytes) == cudaSuccess && cudaMalloc(&to, bytes) == cudaSuccess &&
      cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess &&
      cudaMemset(from, 0x5a, bytes) == cudaSuccess) {
    for (int i = 0; i < kCopies; ++i) {
      float elapsed = 0;
      cudaEventRecord(start);
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice);
      cudaEventRecord(end);
      cudaEventSynchronize(end);
      if (cudaEventElapsedTime(&elapsed, start, end) == cudaSuccess && elapsed > 0) {
        milliseconds.push_back(elapsed);
      }
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  cudaFree(from);
  cudaFree(to);
  cudaGetLastError();
  if (milliseconds.empty()) return 0;
  std::sort(milliseconds.begin(), milliseconds.end());
  return 2.0 * static_cast<double>(bytes) / (1e-3 * milliseconds[milliseconds.size() / 2]);
}

std::vector<StepKernels> kernels() {
  return {{"embed", "embed", "embed"},
          {"norm_project", "linear_few", "norm_rows, linear_many"},
          {"attend", "attend_few", "attend_many"},
          {"delta_rule", "delta_few", "delta_many"},
          {"project_add", "linear_few", "linear_many"},
          {"norm_route", "route_few", "norm_rows, linear_many, choose_experts"},
          {"experts_up", "experts_up_few", "group_by_expert, linear_many"},
          {"experts_down_add", "experts_down_few", "linear_many, combine_experts"},
          {"norm_head", "linear_few", "norm_rows, linear_many"}};
}

}  // namespace

Result<GpuReport> report_gpu(int device) {
  GpuReport report;
  WEIR_TRY(report.name, cuda::use_device(device));
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  report.memory_bytes = total;
  report.free_bytes = available;
  cudaDeviceGetAttribute(&report.multiprocessors, cudaDevAttrMultiProcessorCount, device);
  report.copied_bytes_per_second = copy_peak(available);
  report.kernels = kernels();
  return report;
}

}  // namespace weir
