#include <gtest/gtest.h>

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
        Shares shares(total, thread, threads);
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

}  // namespace
}  // namespace weir::cpu
