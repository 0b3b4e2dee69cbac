#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/shared_pages.h"

namespace weir::cpu {
namespace {

constexpr size_t kPage = 4096;

void unmap(void* data, size_t bytes) {
  munmap(data, bytes);
}

void give(void* data, size_t) {
  SharedPages::of_process().give(data);
}

size_t rounded_up(size_t bytes, size_t page) {
  return (std::max<size_t>(bytes, 1) + page - 1) / page * page;
}

Error out_of_memory(size_t bytes) {
  return {Code::kOutOfMemory, "the system has no memory for " + std::to_string(bytes) + " bytes",
          "use a smaller model, a shorter context, or close other programs"};
}

Buffer allocate_small_pages(size_t bytes) {
  const size_t size = rounded_up(bytes, kPage);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? Buffer() : Buffer(data, size, unmap);
}

Buffer allocate_shared(size_t bytes) {
  void* data = SharedPages::of_process().take(bytes);
  return data == nullptr ? Buffer() : Buffer(data, bytes, give);
}

Buffer allocate_huge_pages(size_t bytes) {
  const size_t size = rounded_up(bytes, kHugePage);
  void* data = map_huge_pages(size);
  return data == nullptr ? Buffer() : Buffer(data, size, unmap);
}

}  // namespace

Result<Buffer> allocate_pages(size_t bytes) {
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) return out_of_memory(bytes);
  const auto allocate = bytes < SharedPages::kSmallestBlock   ? allocate_small_pages
                        : bytes <= SharedPages::kLargestBlock ? allocate_shared
                                                              : allocate_huge_pages;
  Buffer buffer = allocate(bytes);
  if (buffer.data() == nullptr) return out_of_memory(bytes);
  return buffer;
}

}  // namespace weir::cpu
