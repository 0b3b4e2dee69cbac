#include "kernels/cuda/cuda_steps.h"
#include "kernels/cuda/gpu_report.h"

namespace weir {
namespace {

Error not_built() {
  return {Code::kDevice, "this weir was built without CUDA",
          "build with the preset cuda on a machine with the CUDA toolkit, or use --device cpu"};
}

}  // namespace

bool has_cuda() {
  return false;
}

Result<std::unique_ptr<Steps>> make_cuda_steps(int) {
  return not_built();
}

Result<GpuReport> report_gpu(int) {
  return not_built();
}

CudaReport cuda_report(const Steps&) {
  return {};
}

}  // namespace weir
