// Division of work of uneven weight over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace weir::cpu {

// The items of a list of runs of equal items that a stretch of their total cost holds: an item belongs to the
// stretch in which it begins. So stretches that cover the total give every item one owner, and the items of a
// stretch are neighbours in memory.
class Shares {
 public:
  explicit Shares(Range stretch) : begin_(stretch.begin), end_(stretch.end) {}

  // The stretch's items of the next run: `items` of them, of cost `cost` (at least 1) each.
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

// f(thread, stretch) for stretches that cover [0, total), each for the thread that asks next. A thread gets
// half of an even division of what is left, so stretches are long at first and short at the end, and threads
// end together though one core is slower than another or has other work too (guided self-scheduling,
// Polychronopoulos and Kuck, 1987).
template <class F>
void for_stretches(ThreadPool& pool, int64_t total, const F& f) {
  constexpr int64_t kFewest = 16;  // stretches a thread, were all as short as the shortest
  const int64_t shortest = total / (kFewest * pool.threads()) + 1;
  std::atomic<int64_t> next{0};
  pool.run([&](int thread) {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < total) {
      const int64_t even = (total - begin) / pool.threads();
      const int64_t end = std::min(total, begin + std::max(shortest, even / 2));
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      f(thread, Range{begin, end});
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

}  // namespace weir::cpu
