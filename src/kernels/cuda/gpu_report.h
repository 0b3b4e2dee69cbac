// What weir doctor says of a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir {

// The kernels of a step, by the rows of a pass.
struct StepKernels {
  std::string step;
  std::string few;  // up to 8
  std::string many;
};

struct GpuReport {
  std::string name;
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;
  double copied_bytes_per_second = 0;  // read and written, within the GPU; 0 where no memory is left to copy
  std::vector<StepKernels> kernels;
};

// Measures for some milliseconds. Errors: kDevice, as make_cuda_steps.
Result<GpuReport> report_gpu(int device);

}  // namespace weir
