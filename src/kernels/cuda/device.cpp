#include "kernels/cuda/device.h"

#include <cuda_runtime.h>

namespace weir::cuda {
namespace {

constexpr int kCapability = 9;  // Hopper

Error device_error(std::string message, std::string hint) {
  return {Code::kDevice, std::move(message), std::move(hint)};
}

}  // namespace

Result<std::string> use_device(int number) {
  int count = 0;
  if (const cudaError_t found = cudaGetDeviceCount(&count); found != cudaSuccess || count == 0) {
    const char* why = found != cudaSuccess ? cudaGetErrorString(found) : "the driver lists none";
    return device_error(std::string("no usable NVIDIA GPU: ") + why, "check nvidia-smi, or use --device cpu");
  }
  if (number < 0 || number >= count) {
    return device_error(
        "GPU " + std::to_string(number) + " was asked for, this machine has " + std::to_string(count),
        "GPUs are numbered from 0");
  }
  cudaDeviceProp properties;
  if (const cudaError_t result = cudaGetDeviceProperties(&properties, number); result != cudaSuccess) {
    return device_error(std::string("the GPU does not answer: ") + cudaGetErrorString(result),
                        "check nvidia-smi");
  }
  if (properties.major != kCapability) {
    return device_error(std::string(properties.name) + " has compute capability " +
                            std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                            ", this weir was built for 9.0 (Hopper)",
                        "use --device cpu");
  }
  if (const cudaError_t result = cudaSetDevice(number); result != cudaSuccess) {
    return device_error(std::string("the GPU cannot be used: ") + cudaGetErrorString(result),
                        "see whether another program has it to itself");
  }
  return std::string(properties.name);
}

}  // namespace weir::cuda
