// Blocks of less than a huge page: pages of keys and values, states, small matrices. Several blocks of one
// size lie in a huge page, since reading them from small pages costs several times the time
// (docs/kernels/cpu.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

namespace weir::cpu {

inline constexpr size_t kHugePage = size_t{2} << 20;

// `bytes`, a multiple of kHugePage, of zeroed memory at a multiple of kHugePage, for which huge pages are
// asked; null where there is none. For munmap.
void* map_huge_pages(size_t bytes);

class SharedPages {
 public:
  // The process has one, as blocks may outlive whoever asked for them. Threads may use it at once.
  static SharedPages& of_process();

  static constexpr size_t kSmallestBlock = size_t{64} << 10;
  static constexpr size_t kLargestBlock = kHugePage / 2;

  // A zeroed block at a multiple of kSmallestBlock / 16; `bytes` is between the two sizes. Null where there
  // is no memory.
  void* take(size_t bytes);
  // `block` is from take. The system gets a huge page back with its last block.
  void give(void* block);

 private:
  struct Page {
    size_t block = 0;   // bytes
    uint32_t used = 0;  // bit i: block i
    uint32_t dirty = 0;

    uint32_t all() const { return static_cast<uint32_t>((uint64_t{1} << (kHugePage / block)) - 1); }
  };

  std::mutex mutex_;
  std::map<uintptr_t, Page> pages_;                  // by address
  std::map<size_t, std::set<uintptr_t>> with_room_;  // by size of block
};

}  // namespace weir::cpu
