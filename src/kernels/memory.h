// Memory that a backend's steps work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "checkpoint/tensor.h"

namespace weir {

// A handle to backend memory, which is freed with the last of its handles. It moves; another handle to the
// same memory is asked for by name, and whoever writes must know that nobody else looks. On a GPU `data` is a
// device pointer: only steps may follow it.
class Buffer {
 public:
  using Free = void (*)(void* data, size_t bytes);

  Buffer() = default;
  Buffer(void* data, size_t bytes, Free free)
      : memory_(data,
                [bytes, free](void* memory) {
                  if (memory != nullptr) free(memory, bytes);
                }),
        bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Buffer share() const {
    Buffer other;
    other.memory_ = memory_;
    other.bytes_ = bytes_;
    return other;
  }
  bool is_shared() const { return memory_.use_count() > 1; }

  void* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  float* floats() const { return static_cast<float*>(data()); }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

// [rows, cols], row-major and dense, in backend memory. `dtype` is float32 for the residual stream and logits
// in every backend; what lies between steps has the backend's own activation type.
struct Rows {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  Dtype dtype = Dtype::kF32;

  float* floats() const { return static_cast<float*>(data); }
  float* row(int64_t r) const { return floats() + r * cols; }
  size_t bytes() const { return static_cast<size_t>(rows * cols) * dtype_size(dtype); }
  // The first `count` rows, or all rows seen as another width with the same number of elements a row or
  // fewer.
  Rows first(int64_t count) const { return {data, count, cols, dtype}; }
  // All rows from `row` on.
  Rows from(int64_t row) const {
    const size_t skipped = static_cast<size_t>(row * cols) * dtype_size(dtype);
    return {static_cast<std::byte*>(data) + skipped, rows - row, cols, dtype};
  }
  Rows shaped(int64_t row_count, int64_t col_count) const { return {data, row_count, col_count, dtype}; }
};

// Which experts each row goes to, largest weight first; the shared expert, number `experts`, is the last
// slot. Both arrays are [rows, slots] in backend memory.
struct Routing {
  int32_t* experts = nullptr;
  float* weights = nullptr;
  int64_t rows = 0;
  int64_t slots = 0;

  Routing from(int64_t row) const {
    return {experts + row * slots, weights + row * slots, rows - row, slots};
  }
};

}  // namespace weir
