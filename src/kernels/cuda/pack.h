// Packing weights for the GPU.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/packed.h"
#include "kernels/steps.h"

namespace weir::cuda {

Result<std::unique_ptr<Linear>> pack_linear(LaunchQueue& queue, Staging& staging,
                                            std::span<const Matrix> parts);
Result<std::unique_ptr<Experts>> pack_experts(LaunchQueue& queue, Staging& staging,
                                              std::span<const ExpertSource> experts);
Result<std::unique_ptr<Embedding>> pack_embedding(LaunchQueue& queue, const Matrix& matrix);

}  // namespace weir::cuda
