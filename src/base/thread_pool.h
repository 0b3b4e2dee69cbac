// Threads that wait for short pieces of work: they spin for a moment, then park. Jobs divide the work, and do
// it so that results do not depend on which thread computes what.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weir {

// Half-open range of items.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// The part of `items` that belongs to `thread` of `threads`: contiguous, sizes differ by at most one `grain`,
// boundaries at multiples of `grain`.
Range part_of(int64_t items, int thread, int threads, int64_t grain = 1);

class ThreadPool {
 public:
  // `threads` counts the caller too; at least 1. Where the system gives fewer, threads() is smaller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls job(thread) once for each thread number in [0, threads()), the caller being number 0, and returns
  // when all are done. Must not be called from inside a job, nor from two threads at once.
  template <class Job>
  void run(const Job& job) {
    run_erased([](const void* object, int thread) { (*static_cast<const Job*>(object))(thread); }, &job);
  }

 private:
  using Call = void (*)(const void* object, int thread);

  void run_erased(Call call, const void* object);
  void work(int thread);
  bool wait_for_job(uint64_t seen);

  Call call_ = nullptr;
  const void* object_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> unfinished_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  int parked_ = 0;  // guarded by mutex_
  std::vector<std::thread> workers_;
};

}  // namespace weir
