// How fast this machine reads memory: the ceiling of generation.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/thread_pool.h"

namespace weir::cli {

struct Bandwidth {
  double gigabytes_per_second = 0;  // median pass, 1e9 bytes
  double slowest = 0, fastest = 0;
  uint64_t buffer_bytes = 0;
  int passes = 0;
};

// Enough passes for a line of statistics.
inline constexpr int kQuickPasses = 3;

// Reads a buffer several times larger than the last-level cache from end to end, each thread its own part,
// with 64-byte loads where the CPU has them. One pass to warm up, then `passes` timed ones. `buffer_bytes`: a
// size other than that, at least a page. Error: kOutOfMemory, also when half a GiB would not be left free.
Result<Bandwidth> measure_bandwidth(ThreadPool& pool, int passes, std::optional<uint64_t> buffer_bytes = {});

uint64_t last_level_cache_bytes();  // 0 when unknown
uint64_t available_memory_bytes();  // without swapping; 0 when unknown
uint64_t total_memory_bytes();

}  // namespace weir::cli
