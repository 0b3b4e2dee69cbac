#include "cli/canvas_trace.h"

#include <utility>

#include "cli/json_report.h"

namespace weir::cli {
namespace {

template <class T>
Report list(std::span<const T> values) {
  Report out = Report::array();
  for (const T value : values) out.push_back(value);
  return out;
}

}  // namespace

Result<CanvasTrace> CanvasTrace::open(const std::string& path, TimedSteps& timed) {
  std::ofstream file(path, std::ios::trunc);
  if (!file)
    return Error{Code::kNotFound, path + " cannot be written", "name a file in a folder that exists"};
  timed.reset();
  return CanvasTrace(std::move(file), path, timed);
}

void CanvasTrace::add(const CanvasFrame& frame) {
  Report times = Report::object();
  for (const StepCost& cost : timed_->costs()) times[cost.name] = cost.seconds;
  timed_->reset();
  const Report line{{"answer", answer_},
                    {"canvas", frame.canvas},
                    {"step", frame.step},
                    {"last", frame.last},
                    {"rows", frame.rows},
                    {"seconds", frame.seconds},
                    {"tokens", list(frame.tokens)},
                    {"best", list(frame.best)},
                    {"accepted", list(frame.accepted)},
                    {"entropy", list(frame.entropy)},
                    {"confidence", list(frame.confidence)},
                    {"seconds_by_step", std::move(times)}};
  file_ << line.dump() << '\n';
}

Status CanvasTrace::finish() {
  file_.close();
  if (file_) return Ok{};
  return Error{Code::kInternal, "the trace could not be written to " + path_, "is the disk full?"};
}

}  // namespace weir::cli
