// Memory, weights, and the beginning and end of a pass. The steps themselves are in step_calls.cpp.
#include "kernels/cuda/cuda_steps.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/chooser.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/pack.h"

namespace weir {
namespace cuda {

void Backend::copy_in(void* to, const void* from, size_t bytes) {
  queue_.flush();
  settled_routing_ = nullptr;
  staged_ = nullptr;
  queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue_.stream()),
               "copying to the GPU");
}

void Backend::copy_out(void* to, const void* from, size_t bytes) {
  queue_.flush();
  queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue_.stream()),
               "copying from the GPU");
  queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
}

void Backend::copy(void* to, const void* from, size_t bytes) {
  queue_.flush();
  queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_.stream()),
               "copying on the GPU");
}

Status Backend::reserve(const Limits& limits) {
  if (limits.experts > 257) {
    return Error{Code::kUnsupported,
                 "a router over " + std::to_string(limits.experts - 1) +
                     " experts, the CUDA kernels choose among up to 256",
                 "use --device cpu"};
  }
  // Several workspaces may share these steps: scratch only grows.
  for (const auto size : {&Limits::rows, &Limits::hidden, &Limits::widest, &Limits::vocabulary,
                          &Limits::slots, &Limits::experts, &Limits::intermediate}) {
    limits_.*size = std::max(limits_.*size, limits.*size);
  }
  queue_.flush();
  chooser_ = nullptr;
  WEIR_TRY(scratch_, Scratch::make(queue_, limits_));
  return queue_.take_error();
}

template <class Packed>
Result<Packed> Backend::counted(Result<Packed> packed, uint64_t (*bytes)(const Packed&)) {
  if (packed.ok()) {
    packed_bytes_ += bytes(*packed);
  } else if (packed.error().code == Code::kOutOfMemory) {
    return Error{Code::kOutOfMemory,
                 packed.error().message + ", after " + size_text(packed_bytes_) + " of the model's weights",
                 "a model of that size fits; close other programs on the GPU, or choose another GPU"};
  }
  return packed;
}

Result<std::unique_ptr<Linear>> Backend::pack(std::span<const Matrix> parts, Use) {
  return counted<std::unique_ptr<Linear>>(pack_linear(queue_, staging_, parts),
                                          [](const auto& w) { return w->bytes(); });
}

Result<std::unique_ptr<Experts>> Backend::pack_experts(std::span<const ExpertSource> experts) {
  return counted<std::unique_ptr<Experts>>(cuda::pack_experts(queue_, staging_, experts), [](const auto& w) {
    return static_cast<uint64_t>(w->count()) * (w->up_bytes(0) + w->down_bytes(0));
  });
}

Result<std::unique_ptr<Embedding>> Backend::pack_embedding(const Matrix& matrix) {
  return counted<std::unique_ptr<Embedding>>(cuda::pack_embedding(queue_, matrix), [](const auto& w) {
    return static_cast<uint64_t>(w->rows()) * w->row_bytes();
  });
}

void Backend::begin(const Batch& batch) {
  queue_.flush();
  staging_.release();
  if (static_cast<int64_t>(batch.segments.size()) > kMaxSegments) {
    fail({Code::kInvalidArgument,
          "a pass over " + std::to_string(batch.segments.size()) + " sequences, the CUDA kernels take " +
              std::to_string(kMaxSegments),
          "batch fewer sequences"});
  }
  if (Status status = table_.set(batch); !status.ok()) fail(status.error());
  if (static_cast<int64_t>(batch.tokens.size()) <= kFewRows) queue_.defer();
}

Result<std::unique_ptr<TokenChooser>> Backend::make_chooser(const ChoiceRules& rules,
                                                            std::span<const int32_t> prompt) {
  return Chooser::make(*this, rules, prompt);
}

Status Backend::take_failure() {
  Status status = failure_ ? Status(*failure_) : queue_.take_error();
  failure_.reset();
  return status;
}

Status Backend::finish() {
  queue_.flush();
  queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
  return take_failure();
}

}  // namespace cuda

bool has_cuda() {
  return true;
}

Result<std::unique_ptr<Steps>> make_cuda_steps(int device) {
  WEIR_TRY(const std::string name, cuda::use_device(device));
  auto steps = std::make_unique<cuda::Backend>(name);
  WEIR_RETURN_IF_ERROR(steps->open());
  return std::unique_ptr<Steps>(std::move(steps));
}

CudaReport cuda_report(const Steps& steps) {
  return static_cast<const cuda::Backend&>(steps).report();
}

}  // namespace weir
