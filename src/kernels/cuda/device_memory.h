// GPU memory: buffers, and copies of matrices to where a kernel can read them.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/result.h"
#include "checkpoint/matrix.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/raw_matrix.h"
#include "kernels/memory.h"

namespace weir::cuda {

std::string size_text(size_t bytes);  // "19.5 GB", "3 MB"

// Zeroed, on the queue's stream. Error: kOutOfMemory with what was asked for and what is free.
Result<Buffer> allocate_device(LaunchQueue& queue, size_t bytes);

// Memory that raw matrices pass through on their way to the packing kernels. Copies and kernels are in order
// on one stream, so the same memory serves every matrix; it grows to the largest.
class Staging {
 public:
  explicit Staging(LaunchQueue& queue) : queue_(queue) {}

  // Copies `a` and, if given, `b`.
  Status upload(const Matrix& a, const Matrix* b = nullptr);
  const RawMatrix& first() const { return first_; }
  const RawMatrix& second() const { return second_; }
  void release() { memory_ = {}; }

 private:
  LaunchQueue& queue_;
  Buffer memory_;
  RawMatrix first_, second_;
};

// Copies a matrix to `to`, which has raw_bytes(matrix).
size_t raw_bytes(const Matrix& matrix);
RawMatrix upload_raw(LaunchQueue& queue, void* to, const Matrix& matrix);

}  // namespace weir::cuda
