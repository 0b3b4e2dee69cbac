// The scheduler's thread: it alone talks to the generator, and lets the running answers take turns.
#pragma once

#include <memory>
#include <vector>

#include "generate/generator.h"
#include "sessions/checkpoints.h"
#include "sessions/job_queue.h"
#include "sessions/prefix_cache.h"

namespace weir {

class Worker {
 public:
  // All must outlive the worker.
  Worker(Generator& generator, const Tokenizer& tokenizer, const SchedulerOptions& options, JobQueue& queue,
         PrefixCache& cache)
      : generator_(generator),
        tokenizer_(tokenizer),
        options_(options),
        queue_(queue),
        cache_(cache),
        checkpoints_(tokenizer, generator.is_diffusion()) {}

  // Until the queue is stopped and every job has ended.
  void run();

 private:
  struct Running {
    std::shared_ptr<SubmittedJob> job;
    std::vector<int32_t> prompt;
    std::unique_ptr<Generation> generation;  // null until it starts
    int64_t prompt_left = 0;                 // tokens to feed
    double queued_seconds = 0;
  };

  void end_cancelled();
  void admit();
  void start_admitted();
  bool is_being_read(const std::vector<int32_t>& prompt) const;
  Status start(Running& running, GenerationRequest request);
  GenerationCallbacks callbacks(Running& running);
  void keep(const Running& running, const SequenceState& state);
  std::vector<Generation*> next_turn();
  void retire();
  void finish(const SubmittedJob& job, JobResult result);

  Generator& generator_;
  const Tokenizer& tokenizer_;
  const SchedulerOptions& options_;
  JobQueue& queue_;
  PrefixCache& cache_;
  Checkpoints checkpoints_;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace weir
