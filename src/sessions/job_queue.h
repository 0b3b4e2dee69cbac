// What clients and the scheduler's thread share: the jobs that wait, in order, and how many run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "sessions/scheduler.h"

namespace weir {

struct SubmittedJob final : Job {
  SubmittedJob(GenerationRequest asked, JobCallbacks told)
      : request(std::move(asked)), callbacks(std::move(told)) {}

  void cancel() override { cancelled = true; }
  double seconds_waited() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - submitted).count();
  }

  GenerationRequest request;
  JobCallbacks callbacks;
  std::atomic<bool> cancelled = false;
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
};

class JobQueue {
 public:
  explicit JobQueue(int64_t most_waiting) : most_waiting_(most_waiting) {}

  // ---- for clients

  // Error: kBusy when the queue is full or closed.
  Status push(std::shared_ptr<SubmittedJob> job);
  SchedulerStatus status() const;
  void close();                          // takes no more jobs
  void wait_until_idle(double seconds);  // until nothing waits or runs, or the time is over
  void stop();                           // cancels what waits, and lets the worker go when nothing runs

  // ---- for the worker

  // Waits for something to do. False when there will be nothing more.
  bool wait_for_work(bool has_running);
  bool is_stopping() const;
  // The next job, which runs from now on; null when none waits.
  std::shared_ptr<SubmittedJob> pop();
  std::vector<std::shared_ptr<SubmittedJob>> take_cancelled();
  // What status() says, before a job's client learns that it has finished; and that it has been told.
  void count(const GenerationStatistics& statistics, uint64_t cache_bytes, int64_t cached_prefixes);
  void leave();

 private:
  const int64_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<SubmittedJob>> waiting_;
  SchedulerStatus status_;  // all but `waiting`
  bool is_closed_ = false, is_stopping_ = false;
};

}  // namespace weir
