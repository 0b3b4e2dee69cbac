// The steps on an NVIDIA GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

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

// The greedy continuation of the pass that `steps` (made by make_cuda_steps) ran last, chosen and fed back on
// the device: `count` tokens, the first chosen from `logits`, [1, V], as that pass left them; the last one is
// chosen but not run. The pass had one row, its logits wanted, and was followed by finish(). The sequence's
// pages must have been reserved beforehand; the caller moves its position on by count - 1. Errors:
// kInvalidArgument when there is no such pass or the reserved pages end before.
Result<std::vector<int32_t>> continue_greedily(Steps& steps, Rows logits, int64_t count);
CudaReport cuda_report(const Steps& steps);

}  // namespace weir
