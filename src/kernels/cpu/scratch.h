// Arrays of one step, carved out of memory that was reserved once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::cpu {

inline constexpr size_t kCacheLine = 64;

// Bytes of `count` elements, rounded up to whole cache lines.
inline size_t carved_bytes(int64_t count, size_t element) {
  return (static_cast<size_t>(count) * element + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Takes arrays one after the other, each on its own cache lines. `memory` is aligned to a cache line.
class Carver {
 public:
  explicit Carver(void* memory) : next_(static_cast<std::byte*>(memory)) {}

  template <class T>
  T* take(int64_t count) {
    T* array = reinterpret_cast<T*>(next_);
    next_ += carved_bytes(count, sizeof(T));
    return array;
  }

 private:
  std::byte* next_;
};

}  // namespace weir::cpu
