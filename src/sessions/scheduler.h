// Runs the answers of many clients on one model: a bounded queue, turns at pass boundaries, cancellation, and
// the cache of prefixes that spares a conversation from being read again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/generation.h"
#include "generate/generator.h"
#include "generate/request.h"
#include "text/tokenizer.h"

namespace weir {

struct JobResult {
  FinishReason finish = FinishReason::kError;
  GenerationStatistics statistics;  // reused_tokens says what the prefix cache spared
  std::vector<int32_t> answer;      // tokens, without the one that ended it
  std::optional<Error> error;       // with FinishReason::kError
  double queued_seconds = 0;
};

// Called on the scheduler's thread, which must not be held up; views are valid during the call. After
// `finished`, which comes exactly once, nothing more is called, and after a cancellation nothing but
// `finished` (a call that has begun already goes on). They may submit and cancel jobs, but not drain or end
// the scheduler, and they throw nothing.
struct JobCallbacks {
  std::function<void(int64_t done, int64_t all)> prompt;  // tokens of the prompt held so far
  std::function<void(const Piece&)> piece;
  std::function<void(const CanvasFrame&)> canvas;
  std::function<void(const JobResult&)> finished;
};

// A submitted answer.
class Job {
 public:
  virtual ~Job() = default;
  // From any thread, at any time: the answer ends with kCancelled at the next pass boundary, at once while it
  // waits.
  virtual void cancel() = 0;
};

struct SchedulerOptions {
  int64_t most_waiting = 64;
  int64_t most_running = 8;  // answers that take turns
  int64_t chunk = 512;       // most tokens of prompts between two tokens of the other answers
  uint64_t cache_bytes = uint64_t{1} << 30;
  std::string state_folder = {};  // where prefixes survive a restart; empty: nowhere
  // Tells the weights apart that stored prefixes belong to, as by path, size and time of change; the backend
  // is added to it.
  std::string model_identity = {};
  // Told in a sentence which stored prefix could not be read or written, and why. On any thread.
  std::function<void(const std::string&)> notice = {};
};

struct SchedulerStatus {
  int64_t waiting = 0, running = 0;
  uint64_t cache_bytes = 0;
  int64_t cached_prefixes = 0;
  int64_t prompt_tokens = 0, reused_tokens = 0;  // of all answers so far
};

class Scheduler {
 public:
  // Fills the cache from the state folder. `generator` and `tokenizer` must outlive the scheduler, and nobody
  // else may use the generator meanwhile. Errors: kInvalidArgument for options or a state folder that cannot
  // be.
  static Result<std::unique_ptr<Scheduler>> start(Generator& generator, const Tokenizer& tokenizer,
                                                  SchedulerOptions options);
  virtual ~Scheduler() = default;  // cancels what is left, and waits for it

  // From any thread. Errors: those of Generator::start for a request that cannot be fulfilled; kBusy when the
  // queue is full or draining.
  virtual Result<std::shared_ptr<Job>> submit(GenerationRequest request, JobCallbacks callbacks) = 0;

  virtual SchedulerStatus status() const = 0;

  // Takes no more jobs, lets the present ones finish for at most `seconds`, cancels the rest, and writes the
  // state folder.
  virtual void drain(double seconds) = 0;
};

}  // namespace weir
