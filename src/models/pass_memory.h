// The memory that lies between the steps of a model's passes.
#pragma once

#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/steps.h"

namespace weir {

class PassMemory {
 public:
  // Zeroed rows that live as long as this object. Error: kOutOfMemory.
  Result<Rows> rows(Steps& steps, int64_t count, int64_t cols, Dtype dtype) {
    WEIR_TRY(void* data, bytes(steps, static_cast<size_t>(count * cols) * dtype_size(dtype)));
    return Rows{data, count, cols, dtype};
  }

  Result<void*> bytes(Steps& steps, size_t count) {
    WEIR_TRY(Buffer memory, steps.allocate(count));
    buffers_.push_back(std::move(memory));
    return buffers_.back().data();
  }

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace weir
