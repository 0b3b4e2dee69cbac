#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace weir::cpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

void unmap(void* data, size_t bytes) {
  munmap(data, bytes);
}

Error out_of_memory(size_t bytes) {
  return {Code::kOutOfMemory, "the system has no memory for " + std::to_string(bytes) + " bytes",
          "use a smaller model, a shorter context, or close other programs"};
}

}  // namespace

Result<Buffer> allocate_pages(size_t bytes) {
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) return out_of_memory(bytes);
  const size_t size = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const bool huge = size >= 2 * kHugePage;
  const size_t slack = huge ? kHugePage : 0;
  void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return out_of_memory(bytes);
  auto* data = static_cast<std::byte*>(mapped);
  if (huge) {
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
    if (head > 0) munmap(data, head);
    data += head;
    if (slack > head) munmap(data + size, slack - head);
    madvise(data, size, MADV_HUGEPAGE);  // a wish: without huge pages all works the same
  }
  return Buffer(data, size, unmap);
}

}  // namespace weir::cpu
