// Pages of keys and values that sequences share until they write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/state.h"
#include "kernels/steps.h"

namespace weir {

inline size_t page_count(int64_t positions) {
  return static_cast<size_t>((positions + kKvPage - 1) / kKvPage);
}

// Prepares appending the positions [begin, end): makes their pages, and copies those that are held by another
// sequence too. Errors: kOutOfMemory, with what was there left whole.
Status reserve_pages(Steps& steps, KvCache& cache, size_t page_bytes, int64_t begin, int64_t end);

// Appends copies of the pages that are there, in turn, until `positions` have one: a cache of that length for
// measurements. There is a page at least. Errors: kOutOfMemory.
Status repeat_pages(Steps& steps, KvCache& cache, int64_t positions);

// The same pages, shared.
std::vector<KvCache> share_pages(const std::vector<KvCache>& caches);

}  // namespace weir
