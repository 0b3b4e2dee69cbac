#include "base/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"

namespace weir {
namespace {

// Spins before parking: about 50 microseconds at 3 GHz, longer than the serial work between two parallel
// regions of a forward pass and much shorter than a person notices.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Range part_of(int64_t items, int thread, int threads, int64_t grain) {
  const int64_t grains = (items + grain - 1) / grain;
  const int64_t begin = grains * thread / threads * grain;
  const int64_t end = grains * (thread + 1) / threads * grain;
  return {std::min(begin, items), std::min(end, items)};
}

ThreadPool::ThreadPool(int threads) {
  WEIR_CHECK(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads) - 1);
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error&) {  // a limit on processes or on memory; the caller sees threads()
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  generation_.fetch_add(1);
  { const std::lock_guard lock(mutex_); }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(Call call, const void* object) {
  if (!workers_.empty()) {
    call_ = call;
    object_ = object;
    unfinished_.store(static_cast<int>(workers_.size()));
    generation_.fetch_add(1);  // publishes the three stores above
    bool anyone_parked = false;
    {
      const std::lock_guard lock(mutex_);
      anyone_parked = parked_ > 0;
    }
    if (anyone_parked) wake_.notify_all();
  }
  call(object, 0);
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

bool ThreadPool::wait_for_job(uint64_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (generation_.load(std::memory_order_acquire) != seen) return !stopping_.load();
    pause();
  }
  std::unique_lock lock(mutex_);
  ++parked_;
  wake_.wait(lock, [&] { return generation_.load() != seen; });
  --parked_;
  return !stopping_.load();
}

void ThreadPool::work(int thread) {
  for (uint64_t seen = 0; wait_for_job(seen);) {
    ++seen;
    call_(object_, thread);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace weir
