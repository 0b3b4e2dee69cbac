// The steps on an NVIDIA GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/steps.h"

namespace weir {

// Whether this program contains the CUDA backend.
bool has_cuda();

// Errors: kDevice when the program was built without CUDA, or no usable GPU is there.
Result<std::unique_ptr<Steps>> make_cuda_steps(int device);

// What happened on the GPU lately, for reports.
struct CudaReport {
  size_t graphs = 0;              // recorded so far
  size_t launches_per_token = 0;  // of the last recorded pass
};

CudaReport cuda_report(const Steps& steps);

}  // namespace weir
