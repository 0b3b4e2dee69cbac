// The steps on an NVIDIA GPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/steps.h"

namespace weir {

// Whether this program contains the CUDA backend.
bool has_cuda();

// Errors: kDevice when the program was built without CUDA, or no usable GPU is there.
Result<std::unique_ptr<Steps>> make_cuda_steps(int device);

}  // namespace weir
