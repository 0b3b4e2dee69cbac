#include "sessions/worker.h"

#include <algorithm>
#include <utility>

namespace weir {

void Worker::run() {
  while (queue_.wait_for_work(!running_.empty())) {
    if (queue_.is_stopping()) {
      for (const auto& running : running_) running->job->cancel();
    }
    end_cancelled();
    admit();
    start_admitted();
    // Whom an error struck says so itself.
    if (const auto turn = next_turn(); !turn.empty()) static_cast<void>(generator_.step(turn));
    retire();
  }
}

// Those that were cancelled while they waited.
void Worker::end_cancelled() {
  for (const auto& job : queue_.take_cancelled()) {
    JobResult result;
    result.finish = FinishReason::kCancelled;
    result.statistics.prompt_tokens = static_cast<int64_t>(job->request.prompt.size());
    result.queued_seconds = job->seconds_waited();
    finish(*job, std::move(result));
  }
}

void Worker::admit() {
  while (static_cast<int64_t>(running_.size()) < options_.most_running) {
    std::shared_ptr<SubmittedJob> job = queue_.pop();
    if (!job) return;
    auto running = std::make_unique<Running>();
    running->prompt = job->request.prompt;
    running->queued_seconds = job->seconds_waited();
    running->job = std::move(job);
    running_.push_back(std::move(running));
  }
}

// Answers to one prompt, such as the choices of a request, have it read once: the others start from what the
// first one has left in the cache.
void Worker::start_admitted() {
  for (size_t i = 0; i < running_.size();) {
    Running& running = *running_[i];
    if (running.generation || (is_being_read(running.prompt) && !running.job->cancelled)) {
      ++i;
      continue;
    }
    Status status = start(running, std::move(running.job->request));
    if (status.ok()) {
      ++i;
      continue;
    }
    JobResult result;
    result.statistics.prompt_tokens = static_cast<int64_t>(running.prompt.size());
    result.error = std::move(status).error();
    result.queued_seconds = running.queued_seconds;
    finish(*running.job, std::move(result));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Worker::is_being_read(const std::vector<int32_t>& prompt) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& running) {
    return running->generation && running->prompt_left > 0 && running->prompt == prompt;
  });
}

Status Worker::start(Running& running, GenerationRequest request) {
  PrefixCache::Match match;
  // When there is no memory for a copy, the prompt is read again.
  if (auto found = cache_.find(request.prompt); found.ok()) match = std::move(*found);
  request.checkpoints =
      checkpoints_.positions(request.prompt, std::min(match.held.state.position, match.common), match.common);
  if (request.chunk == 0) request.chunk = std::min(options_.chunk, generator_.max_rows());
  WEIR_TRY(running.generation,
           generator_.start(tokenizer_, std::move(request), callbacks(running), std::move(match.held)));
  const GenerationStatistics& statistics = running.generation->statistics();
  running.prompt_left = statistics.prompt_tokens - statistics.reused_tokens;
  return Ok{};
}

GenerationCallbacks Worker::callbacks(Running& running) {
  SubmittedJob& job = *running.job;
  const JobCallbacks& client = job.callbacks;
  GenerationCallbacks callbacks;
  callbacks.cancel = &job.cancelled;
  callbacks.prompt = [&running, &job, &client](uint64_t done, uint64_t all) {
    running.prompt_left = static_cast<int64_t>(all - done);
    if (!job.cancelled && client.prompt) client.prompt(static_cast<int64_t>(done), static_cast<int64_t>(all));
  };
  callbacks.piece = [&job, &client](const Piece& piece) {
    if (!job.cancelled && client.piece) client.piece(piece);
  };
  // A frame is put together only for who looks at it.
  if (client.canvas) {
    callbacks.canvas = [&job, &client](const CanvasFrame& frame) {
      if (!job.cancelled) client.canvas(frame);
    };
  }
  callbacks.checkpoint = [this, &running](const SequenceState& state) { keep(running, state); };
  return callbacks;
}

void Worker::keep(const Running& running, const SequenceState& state) {
  const auto tokens = std::span(running.prompt).first(static_cast<size_t>(state.position));
  if (cache_.contains(tokens)) return;
  auto copy = generator_.copy(state);
  if (copy.ok()) cache_.insert({std::move(*copy), {tokens.begin(), tokens.end()}});
}

// Every answer takes a step, but of the prompts only as many as have a chunk together; the others come first
// in the next turn.
std::vector<Generation*> Worker::next_turn() {
  std::vector<Generation*> turn;
  int64_t room = options_.chunk;
  const auto steps = [&](const std::unique_ptr<Running>& running) {
    if (!running->generation) return false;
    const bool cancelled = running->job->cancelled;  // whose step only ends it
    const int64_t rows = cancelled ? 0 : std::min(running->prompt_left, options_.chunk);
    if (rows > room) return false;
    room -= rows;
    turn.push_back(running->generation.get());
    return true;
  };
  std::vector<std::unique_ptr<Running>> fed;
  std::vector<std::unique_ptr<Running>> others;
  for (auto& running : running_) (steps(running) ? fed : others).push_back(std::move(running));
  running_ = std::move(others);
  for (auto& running : fed) running_.push_back(std::move(running));
  return turn;
}

void Worker::retire() {
  const auto goes_on = [](const auto& r) { return !r->generation || !r->generation->finished(); };
  const auto first = std::stable_partition(running_.begin(), running_.end(), goes_on);
  std::vector<std::unique_ptr<Running>> ended(std::make_move_iterator(first),
                                              std::make_move_iterator(running_.end()));
  running_.erase(first, running_.end());
  for (const auto& running : ended) {
    Generation& generation = *running->generation;
    JobResult result;
    result.finish = generation.finish_reason();
    result.statistics = generation.statistics();
    result.answer.assign(generation.answer().begin(), generation.answer().end());
    result.error = generation.error();
    result.queued_seconds = running->queued_seconds;
    if (!result.error) cache_.insert(generation.release());
    finish(*running->job, std::move(result));
  }
}

void Worker::finish(const SubmittedJob& job, JobResult result) {
  queue_.count(result.statistics, cache_.bytes(), cache_.size());
  if (job.callbacks.finished) job.callbacks.finished(result);
  queue_.leave();
}

}  // namespace weir
