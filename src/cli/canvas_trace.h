// --trace FILE: one JSON line for each denoising step.
#pragma once

#include <fstream>
#include <string>

#include "base/result.h"
#include "generate/canvas_frame.h"
#include "kernels/observe/timed_steps.h"

namespace weir::cli {

// A line has "answer" (number of the answer in the file, from 0), "canvas", "step", "last", "rows"
// (forwarded), "seconds", "tokens" (input of the next pass), "best", "accepted" (a 0 or 1 for each position),
// "entropy" (nats), "confidence", and "seconds_by_step" (of the pass, by kind of step).
class CanvasTrace {
 public:
  // Error: kNotFound when the file cannot be written. `timed` are the steps that the model runs on; they must
  // outlive the trace.
  static Result<CanvasTrace> open(const std::string& path, TimedSteps& timed);

  void begin_answer() { ++answer_; }
  void add(const CanvasFrame& frame);

  // Error: kInternal when a line could not be written.
  Status finish();

 private:
  CanvasTrace(std::ofstream file, std::string path, TimedSteps& timed)
      : file_(std::move(file)), path_(std::move(path)), timed_(&timed) {}

  std::ofstream file_;
  std::string path_;
  TimedSteps* timed_;
  int64_t answer_ = -1;
};

}  // namespace weir::cli
