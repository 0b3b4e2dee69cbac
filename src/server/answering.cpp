#include "server/answering.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace weir::server {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

Headers warning_headers(const std::vector<std::string>& warnings) {
  std::string all;
  for (const std::string& warning : warnings) all += (all.empty() ? "" : "; ") + warning;
  return all.empty() ? Headers() : Headers{{"x-weir-warning", all}};
}

}  // namespace

Answering::Answering(const AnsweringParts& parts, AnswerRequest request,
                     std::unique_ptr<ResponseWriter> writer, std::shared_ptr<Reply> reply)
    : parts_(parts), request_(std::move(request)), writer_(std::move(writer)), reply_(std::move(reply)) {
  const size_t count = request_.prompts.size() * static_cast<size_t>(request_.choices);
  for (size_t i = 0; i < count; ++i) lines_.emplace_back(Choice(request_, parts_.model));
}

Status Answering::start(const AnsweringParts& parts, AnswerRequest request,
                        std::unique_ptr<ResponseWriter> writer, std::shared_ptr<Reply> reply) {
  const std::shared_ptr<Answering> answering(
      new Answering(parts, std::move(request), std::move(writer), std::move(reply)));
  if (auto submitted = answering->submit_all(); !submitted.ok()) {
    {
      const std::lock_guard lock(answering->mutex_);
      answering->over_ = true;
    }
    answering->cancel_all();
    return submitted;
  }
  answering->reply_->on_gone([answering] { answering->on_gone(); });
  answering->open();
  return Ok{};
}

Status Answering::submit_all() {
  for (size_t i = 0; i < lines_.size(); ++i) {
    GenerationRequest generation = request_.generation;
    generation.prompt = request_.prompts[i / static_cast<size_t>(request_.choices)];
    generation.sequence = static_cast<uint32_t>(i);
    WEIR_TRY(std::shared_ptr<Job> job, parts_.scheduler.submit(std::move(generation), callbacks_of(i)));
    bool cancel = false;
    {
      const std::lock_guard lock(mutex_);
      cancel = lines_[i].cancel_wanted;
      if (!lines_[i].finished) lines_[i].job = job;
    }
    if (cancel) job->cancel();
  }
  return Ok{};
}

JobCallbacks Answering::callbacks_of(size_t index) {
  const auto self = shared_from_this();
  JobCallbacks callbacks;
  if (request_.stream && index == 0) {
    callbacks.prompt = [self](int64_t done, int64_t all) {
      self->guarded([&] { self->on_prompt(done, all); });
    };
  }
  callbacks.piece = [self, index](const Piece& piece) {
    self->guarded([&] { self->on_piece(index, piece); });
  };
  if (request_.canvas_frames) {
    callbacks.canvas = [self, index](const CanvasFrame& frame) {
      self->guarded([&] { self->on_canvas(index, frame); });
    };
  }
  callbacks.finished = [self, index](const JobResult& result) {
    self->guarded([&] { self->on_finished(index, result); });
  };
  return callbacks;
}

// The scheduler knows no exceptions. What memory is too short for ends this answer only.
template <class Task>
void Answering::guarded(Task task) {
  try {
    task();
  } catch (const std::exception& exception) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = Error{Code::kInternal, exception.what(), ""};
    conclude_if_over();
  }
}

void Answering::open() {
  const std::lock_guard lock(mutex_);
  opened_ = true;
  if (request_.stream && !error_) {
    streaming_ = true;
    reply_->begin_stream(warning_headers(request_.warnings));
    emit(writer_->begin() + std::exchange(held_, {}));
  }
  conclude_if_over();
}

void Answering::on_prompt(int64_t done, int64_t all) {
  const std::lock_guard lock(mutex_);
  if (over_ || done >= all) return;
  emit(sse_comment("prompt " + std::to_string(done) + " of " + std::to_string(all) + " tokens"));
}

void Answering::on_piece(size_t index, const Piece& piece) {
  std::shared_ptr<Job> complete;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    Line& line = lines_[index];
    if (piece.token) measure(line);
    const AnswerDelta delta = line.choice.piece(piece);
    if (!delta.events.empty() || !delta.logprobs.empty()) {
      emit(writer_->delta(static_cast<int64_t>(index), delta));
    }
    if (line.choice.complete() && !line.cancel_wanted) {
      line.cancel_wanted = true;
      complete = line.job;
    }
  }
  if (complete) complete->cancel();
}

void Answering::on_canvas(size_t index, const CanvasFrame& frame) {
  const std::lock_guard lock(mutex_);
  if (!over_) emit(writer_->frame(static_cast<int64_t>(index), frame));
}

void Answering::on_finished(size_t index, const JobResult& result) {
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    take_result(index, result);
    failed = error_.has_value();
  }
  if (failed) cancel_all();  // the other choices
}

void Answering::take_result(size_t index, const JobResult& result) {
  Line& line = lines_[index];
  line.finished = true;
  line.job.reset();
  line.result = result;
  parts_.metrics.answered(result, seconds_between(parts_.received, Clock::now()));
  if (over_) return;
  if (result.finish == FinishReason::kError) {
    error_ = result.error.value_or(Error{Code::kInternal, "the answer failed", ""});
  } else if (result.finish == FinishReason::kCancelled && !line.choice.complete()) {
    error_ = Error{Code::kCancelled, "the server is shutting down", ""};
  } else {
    const auto number = static_cast<int64_t>(index);
    const AnswerDelta rest = line.choice.finish(result);
    std::string bytes;
    if (!rest.events.empty()) bytes = writer_->delta(number, rest);
    emit(bytes + writer_->finish(number, line.choice.end()));
  }
  conclude_if_over();
}

void Answering::on_gone() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  cancel_all();
}

// Outside the lock, because a job may end during its cancel().
void Answering::cancel_all() {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (const Line& line : lines_) {
      if (line.job) jobs.push_back(line.job);
    }
  }
  for (const auto& job : jobs) job->cancel();
}

void Answering::measure(Line& line) {
  const auto now = Clock::now();
  if (line.last_token) {
    parts_.metrics.next_token(seconds_between(*line.last_token, now));
  } else {
    parts_.metrics.first_token(seconds_between(parts_.received, now));
  }
  line.last_token = now;
}

void Answering::emit(std::string bytes) {
  if (!request_.stream || bytes.empty()) return;
  if (opened_) {
    reply_->write(std::move(bytes));
  } else {
    held_ += bytes;
  }
}

void Answering::conclude_if_over() {
  if (over_ || !opened_) return;
  const auto finished = [](const Line& line) { return line.finished; };
  if (!error_ && !std::all_of(lines_.begin(), lines_.end(), finished)) return;
  over_ = true;
  if (streaming_) {
    reply_->write(error_ ? writer_->fail(*error_) : writer_->end(usage()));
    reply_->end();
  } else if (error_) {
    const Failure failure = failure_of(*error_);
    reply_->send({failure.status, failure_body(parts_.protocol, failure, parts_.request_id)});
  } else {
    reply_->send({200, writer_->end(usage()), "application/json", warning_headers(request_.warnings)});
  }
}

// The prompt of several choices counts once.
Usage Answering::usage() const {
  Usage sum;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const GenerationStatistics& statistics = lines_[i].result.statistics;
    sum.completion += statistics.generated_tokens;
    sum.reasoning += lines_[i].choice.reasoning_tokens();
    if (i % static_cast<size_t>(request_.choices) != 0) continue;
    sum.prompt += statistics.prompt_tokens;
    sum.cached += statistics.reused_tokens;
  }
  return sum;
}

}  // namespace weir::server
