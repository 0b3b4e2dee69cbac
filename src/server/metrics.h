// Counters and histograms in Prometheus' text format. Names follow vLLM's, with weir_ before them.
#pragma once

#include <memory>
#include <string>

#include "sessions/scheduler.h"

namespace weir::server {

// From any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void first_token(double seconds);  // since the request came
  void next_token(double seconds);   // since the one before
  void answered(const JobResult& result, double seconds);
  void responded(int status);

  std::string text(const SchedulerStatus& status);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace weir::server
