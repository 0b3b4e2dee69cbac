#include "kernels/cuda/cuda_steps.h"

namespace weir {

bool has_cuda() { return false; }

Result<std::unique_ptr<Steps>> make_cuda_steps(int) {
  return Error{Code::kDevice, "this weir was built without CUDA",
               "build with the preset cuda on a machine with the CUDA toolkit, or use --device cpu"};
}

}  // namespace weir
