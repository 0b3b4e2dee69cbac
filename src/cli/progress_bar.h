// A progress line on stderr: bytes, rate and time left. Only on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weir::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // removes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
};

// "label [#####     ]  45%  4.5 MiB of 10.0 MiB  120.0 MiB/s  0:03", at most `columns` wide.
std::string progress_line(const std::string& label, uint64_t done, uint64_t total, double seconds,
                          int columns);

}  // namespace weir::cli
