#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace weir::test {
namespace {

TEST(ThreadPool, runs_each_thread_number_once) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 2000; ++round) {
      std::vector<int> calls(static_cast<size_t>(threads));  // each thread writes its own, unsynchronised
      pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      ASSERT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 1));
    }
  }
}

TEST(ThreadPool, wakes_parked_threads) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough to park
    std::atomic<int> calls = 0;
    pool.run([&](int) { ++calls; });
    ASSERT_EQ(calls.load(), 3);
  }
}

TEST(ThreadPool, works_with_the_threads_that_the_system_gives) {
  // Each thread's stack takes 4 TiB of the address space, which has 128.
  EXPECT_EXIT(
      {
        pthread_attr_t large;
        pthread_attr_init(&large);
        pthread_attr_setstacksize(&large, size_t{1} << 42);
        pthread_setattr_default_np(&large);
        ThreadPool pool(100);
        std::atomic<int> calls = 0;
        pool.run([&](int) { ++calls; });
        std::_Exit(pool.threads() < 100 && calls == pool.threads() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ThreadPool, a_pool_that_never_worked_shuts_down) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

TEST(PartOf, parts_cover_all_items_once_at_grain_boundaries) {
  for (const int64_t items : {0, 1, 15, 16, 17, 100, 12352}) {
    for (const int threads : {1, 2, 3, 8}) {
      for (const int64_t grain : {1, 16}) {
        int64_t next = 0;
        for (int thread = 0; thread < threads; ++thread) {
          const Range part = part_of(items, thread, threads, grain);
          EXPECT_EQ(part.begin, next);
          EXPECT_TRUE(part.begin % grain == 0 || part.begin == items);
          EXPECT_LE(part.end - part.begin, items / threads + 2 * grain);
          next = part.end;
        }
        EXPECT_EQ(next, items);
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
