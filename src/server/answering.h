// Runs the answers of one request on the scheduler and brings what they write to the client.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/answer_request.h"
#include "server/choice.h"
#include "server/failure.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/response_writer.h"
#include "sessions/scheduler.h"

namespace weir::server {

// What a request is answered with. `scheduler`, `metrics` and `model` outlive every answer.
struct AnsweringParts {
  Scheduler& scheduler;
  Metrics& metrics;
  const ServedModel& model;
  Protocol protocol;
  std::string request_id;
  std::chrono::steady_clock::time_point received;
};

class Answering : public std::enable_shared_from_this<Answering> {
 public:
  // Submits the request's jobs, all or none. From then on the reply belongs to the answer, which ends by
  // itself; a client that leaves cancels its jobs. Errors: those of Scheduler::submit; the reply is then
  // untouched.
  static Status start(const AnsweringParts& parts, AnswerRequest request,
                      std::unique_ptr<ResponseWriter> writer, std::shared_ptr<Reply> reply);

 private:
  using Clock = std::chrono::steady_clock;

  struct Line {  // of one choice
    explicit Line(Choice c) : choice(std::move(c)) {}
    Choice choice;
    std::shared_ptr<Job> job;  // null until submit() has returned
    std::optional<Clock::time_point> last_token;
    JobResult result;
    bool finished = false;
    bool cancel_wanted = false;
  };

  Answering(const AnsweringParts& parts, AnswerRequest request, std::unique_ptr<ResponseWriter> writer,
            std::shared_ptr<Reply> reply);

  Status submit_all();
  JobCallbacks callbacks_of(size_t index);
  template <class Task>
  void guarded(Task task);
  void open();

  // On the scheduler's thread.
  void on_prompt(int64_t done, int64_t all);
  void on_piece(size_t index, const Piece& piece);
  void on_canvas(size_t index, const CanvasFrame& frame);
  void on_finished(size_t index, const JobResult& result);

  void on_gone();
  void cancel_all();

  // With the lock held.
  void take_result(size_t index, const JobResult& result);
  void measure(Line& line);
  void emit(std::string bytes);
  void conclude_if_over();
  Usage usage() const;

  AnsweringParts parts_;
  AnswerRequest request_;
  std::unique_ptr<ResponseWriter> writer_;
  std::shared_ptr<Reply> reply_;

  std::mutex mutex_;
  std::vector<Line> lines_;
  std::string held_;     // of a stream, until every job has been submitted
  bool opened_ = false;  // every job has been submitted
  bool streaming_ = false;
  bool over_ = false;  // nothing more is written
  std::optional<Error> error_;
};

}  // namespace weir::server
