// Static division of work of uneven weight over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace weir::cpu {

// One thread's share of a list of runs of equal items. The total cost is cut into as many equal stretches as
// there are threads, and an item belongs to the thread in whose stretch it begins: every item has one owner,
// and a thread's items are neighbours in memory.
class Shares {
 public:
  Shares(int64_t total_cost, int thread, int threads)
      : begin_(total_cost * thread / threads), end_(total_cost * (thread + 1) / threads) {}

  // This thread's items of the next run: `items` of them, of cost `cost` (at least 1) each.
  Range next(int64_t items, int64_t cost) {
    const auto item_at = [&](int64_t position) {
      return std::clamp<int64_t>((position - start_ + cost - 1) / cost, 0, items);
    };
    const Range mine{item_at(begin_), item_at(end_)};
    start_ += items * cost;
    return mine;
  }

 private:
  int64_t begin_;
  int64_t end_;
  int64_t start_ = 0;
};

}  // namespace weir::cpu
