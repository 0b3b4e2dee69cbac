#include "sessions/scheduler.h"

#include <fmt/format.h>

#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "sessions/job_queue.h"
#include "sessions/prefix_cache.h"
#include "sessions/state_folder.h"
#include "sessions/worker.h"

namespace weir {
namespace {

class ThreadScheduler final : public Scheduler {
 public:
  ThreadScheduler(Generator& generator, const Tokenizer& tokenizer, SchedulerOptions options)
      : generator_(generator),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        queue_(options_.most_waiting),
        cache_(generator, options_.cache_bytes),
        worker_(generator, tokenizer, options_, queue_, cache_) {}
  ~ThreadScheduler() override { stop(); }

  Status run() {
    if (!options_.state_folder.empty()) {
      WEIR_TRY(StateFolder folder, StateFolder::open(options_.state_folder, options_.model_identity,
                                                     options_.cache_bytes, generator_, options_.notice));
      folder_.emplace(std::move(folder));
      folder_->restore(cache_);
      cache_.on_eviction([this](auto tokens, const auto& state) { folder_->write(tokens, state); });
      queue_.count({}, cache_.bytes(), cache_.size());
    }
    try {
      thread_ = std::thread([this] { worker_.run(); });
    } catch (const std::system_error& error) {
      return Error{Code::kInternal, fmt::format("cannot start the scheduler's thread: {}", error.what()), ""};
    }
    return Ok{};
  }

  Result<std::shared_ptr<Job>> submit(GenerationRequest request, JobCallbacks callbacks) override {
    WEIR_RETURN_IF_ERROR(generator_.check(tokenizer_, request));
    auto job = std::make_shared<SubmittedJob>(std::move(request), std::move(callbacks));
    WEIR_RETURN_IF_ERROR(queue_.push(job));
    return std::shared_ptr<Job>(std::move(job));
  }

  SchedulerStatus status() const override { return queue_.status(); }

  void drain(double seconds) override {
    queue_.close();
    queue_.wait_until_idle(seconds);
    if (stop() && folder_) {
      cache_.for_each([this](auto tokens, const auto& state) { folder_->write(tokens, state); });
      folder_->flush();
    }
  }

 private:
  // True for the one call that ended the thread.
  bool stop() {
    queue_.stop();
    const std::lock_guard lock(joining_);
    if (!thread_.joinable()) return false;
    thread_.join();
    return true;
  }

  Generator& generator_;
  const Tokenizer& tokenizer_;
  const SchedulerOptions options_;
  JobQueue queue_;
  PrefixCache cache_;
  std::optional<StateFolder> folder_;
  Worker worker_;
  std::mutex joining_;
  std::thread thread_;
};

Status check(const SchedulerOptions& options) {
  if (options.most_waiting >= 1 && options.most_running >= 1 && options.chunk >= 1) return Ok{};
  return Error{
      Code::kInvalidArgument,
      fmt::format("{} waiting and {} running answers and chunks of {} were asked for, but each must be "
                  "at least 1",
                  options.most_waiting, options.most_running, options.chunk),
      ""};
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::start(Generator& generator, const Tokenizer& tokenizer,
                                                    SchedulerOptions options) {
  WEIR_RETURN_IF_ERROR(check(options));
  auto scheduler = std::make_unique<ThreadScheduler>(generator, tokenizer, std::move(options));
  WEIR_RETURN_IF_ERROR(scheduler->run());
  return std::unique_ptr<Scheduler>(std::move(scheduler));
}

}  // namespace weir
