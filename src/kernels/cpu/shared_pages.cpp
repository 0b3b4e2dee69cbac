#include "kernels/cpu/shared_pages.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace weir::cpu {

void* map_huge_pages(size_t bytes) {
  const size_t mapped_bytes = bytes + kHugePage;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* data = static_cast<std::byte*>(mapped);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  if (head > 0) munmap(data, head);
  data += head;
  munmap(data + bytes, kHugePage - head);
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without huge pages all works the same
  return data;
}

SharedPages& SharedPages::of_process() {
  static auto* pages = new SharedPages;  // never destroyed: blocks may be given back at exit
  return *pages;
}

void* SharedPages::take(size_t bytes) {
  WEIR_CHECK(bytes >= kSmallestBlock && bytes <= kLargestBlock);
  constexpr size_t kStep = kSmallestBlock / 16;
  const size_t block = (bytes + kStep - 1) / kStep * kStep;
  const std::lock_guard lock(mutex_);
  std::set<uintptr_t>& with_room = with_room_[block];
  if (with_room.empty()) {
    void* fresh = map_huge_pages(kHugePage);
    if (fresh == nullptr) return nullptr;
    const auto address = reinterpret_cast<uintptr_t>(fresh);
    pages_[address].block = block;
    with_room.insert(address);
  }
  const uintptr_t address = *with_room.begin();
  Page& page = pages_[address];
  const int i = std::countr_one(page.used);
  const uint32_t bit = uint32_t{1} << i;
  page.used |= bit;
  if (page.used == page.all()) with_room.erase(address);
  auto* data = reinterpret_cast<std::byte*>(address) + static_cast<size_t>(i) * block;
  if ((page.dirty & bit) != 0) std::memset(data, 0, block);
  page.dirty |= bit;
  return data;
}

void SharedPages::give(void* block) {
  const auto at = reinterpret_cast<uintptr_t>(block);
  const uintptr_t address = at / kHugePage * kHugePage;
  const std::lock_guard lock(mutex_);
  const auto found = pages_.find(address);
  WEIR_CHECK(found != pages_.end());
  Page& page = found->second;
  page.used &= ~(uint32_t{1} << ((at - address) / page.block));
  std::set<uintptr_t>& with_room = with_room_[page.block];
  if (page.used != 0) {
    with_room.insert(address);
    return;
  }
  with_room.erase(address);
  pages_.erase(found);
  munmap(reinterpret_cast<void*>(address), kHugePage);
}

}  // namespace weir::cpu
