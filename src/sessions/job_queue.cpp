#include "sessions/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir {

Status JobQueue::push(std::shared_ptr<SubmittedJob> job) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return Error{Code::kBusy, "the scheduler takes no more jobs, as it is shutting down", ""};
  if (static_cast<int64_t>(waiting_.size()) >= most_waiting_) {
    return Error{Code::kBusy,
                 fmt::format("the queue is full: {} answers are waiting already", waiting_.size()),
                 "try again later"};
  }
  waiting_.push_back(std::move(job));
  changed_.notify_all();
  return Ok{};
}

SchedulerStatus JobQueue::status() const {
  const std::lock_guard lock(mutex_);
  SchedulerStatus status = status_;
  status.waiting = static_cast<int64_t>(waiting_.size());
  return status;
}

void JobQueue::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void JobQueue::wait_until_idle(double seconds) {
  // A year is as good as for ever, and does not overflow a clock.
  const std::chrono::duration<double> limit(std::clamp(seconds, 0.0, 365.0 * 86400));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return waiting_.empty() && status_.running == 0; });
}

void JobQueue::stop() {
  const std::lock_guard lock(mutex_);
  is_closed_ = is_stopping_ = true;
  for (const auto& job : waiting_) job->cancel();
  changed_.notify_all();
}

bool JobQueue::wait_for_work(bool has_running) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_running || !waiting_.empty() || is_stopping_; });
  return has_running || !waiting_.empty();
}

bool JobQueue::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

std::shared_ptr<SubmittedJob> JobQueue::pop() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return nullptr;
  std::shared_ptr<SubmittedJob> job = std::move(waiting_.front());
  waiting_.pop_front();
  ++status_.running;
  return job;
}

std::vector<std::shared_ptr<SubmittedJob>> JobQueue::take_cancelled() {
  const std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [](const auto& job) { return !job->cancelled; });
  std::vector<std::shared_ptr<SubmittedJob>> cancelled(first, waiting_.end());
  waiting_.erase(first, waiting_.end());
  status_.running += static_cast<int64_t>(cancelled.size());
  return cancelled;
}

void JobQueue::count(const GenerationStatistics& statistics, uint64_t cache_bytes, int64_t cached_prefixes) {
  const std::lock_guard lock(mutex_);
  status_.prompt_tokens += statistics.prompt_tokens;
  status_.reused_tokens += statistics.reused_tokens;
  status_.cache_bytes = cache_bytes;
  status_.cached_prefixes = cached_prefixes;
}

void JobQueue::leave() {
  const std::lock_guard lock(mutex_);
  --status_.running;
  changed_.notify_all();
}

}  // namespace weir
