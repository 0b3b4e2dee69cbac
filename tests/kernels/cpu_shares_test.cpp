#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/shares.h"

namespace weir::cpu {
namespace {

struct EqualItems {
  int64_t items;
  int64_t cost;
};

std::vector<EqualItems> random_runs(uint32_t seed) {
  std::vector<EqualItems> runs;
  const auto draw = [&](uint32_t below) {
    return random_words({seed, 0, 0, static_cast<uint32_t>(2 * runs.size()) + below})[0] % below;
  };
  for (int i = 0; i < 12; ++i) runs.push_back({draw(40), 1 + draw(1000)});
  return runs;
}

TEST(CpuShares, EveryItemHasOneOwnerAndNobodyHasMuchMoreThanTheirPart) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<EqualItems> runs = random_runs(seed);
    int64_t total = 0, largest = 0;
    for (const EqualItems& run : runs) {
      total += run.items * run.cost;
      largest = std::max(largest, run.cost);
    }
    for (const int threads : {1, 2, 3, 7, 64}) {
      std::vector<int64_t> taken(runs.size(), 0);
      for (int thread = 0; thread < threads; ++thread) {
        Shares shares(part_of(total, thread, threads));
        int64_t cost = 0;
        for (size_t r = 0; r < runs.size(); ++r) {
          const Range mine = shares.next(runs[r].items, runs[r].cost);
          ASSERT_EQ(mine.begin, taken[r]);  // threads come in order, so nothing is missed or shared
          ASSERT_GE(mine.end, mine.begin);
          taken[r] = mine.end;
          cost += (mine.end - mine.begin) * runs[r].cost;
        }
        ASSERT_LE(cost, total / threads + 1 + largest);
      }
      for (size_t r = 0; r < runs.size(); ++r) ASSERT_EQ(taken[r], runs[r].items);
    }
  }
}

TEST(CpuShares, StretchesHandedOutCoverTheTotalOnceAndGetShorter) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const int64_t total : {0, 1, 2, 31, 1000, 123457}) {
      std::mutex mutex;
      std::map<int64_t, int64_t> stretches;  // end by begin
      for_stretches(pool, total, [&](int thread, Range stretch) {
        const std::lock_guard lock(mutex);
        ASSERT_LT(thread, threads);
        ASSERT_TRUE(stretches.emplace(stretch.begin, stretch.end).second);
      });
      int64_t covered = 0, longest = total;
      for (const auto& [begin, end] : stretches) {
        ASSERT_EQ(begin, covered);
        ASSERT_GT(end, begin);
        ASSERT_LE(end - begin, longest);
        covered = end;
        longest = end - begin;
      }
      ASSERT_EQ(covered, total);
    }
  }
}

TEST(CpuShares, AThreadThatIsHeldUpLeavesTheRestToTheOthers) {
  ThreadPool pool(2);
  constexpr int64_t kTotal = 1000;
  std::atomic<int64_t> done{0};
  int64_t first_of_slow = 0;
  std::atomic<int> slow{-1};
  for_stretches(pool, kTotal, [&](int thread, Range stretch) {
    int nobody = -1;
    const bool first = slow.compare_exchange_strong(nobody, thread);
    if (first) {
      first_of_slow = stretch.end - stretch.begin;
      while (done.load() < kTotal - first_of_slow) std::this_thread::yield();
    }
    done.fetch_add(stretch.end - stretch.begin);
  });
  EXPECT_EQ(done.load(), kTotal);
  EXPECT_LE(first_of_slow, kTotal / 4 + 1);
}

}  // namespace
}  // namespace weir::cpu
