// Collects what the device checks found, and prints one table.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

namespace weir::bench {

class Report {
 public:
  // `found` must not exceed `bound`; NaN never passes.
  void add(const std::string& name, double found, double bound) {
    const bool good = found <= bound;
    const std::lock_guard lock(mutex_);
    ++checks_;
    if (!good) ++failures_;
    std::printf("%-4s %-64s %10.3g  bound %8.3g\n", good ? "ok" : "BAD", name.c_str(), found, bound);
    std::fflush(stdout);
  }
  void fail(const std::string& name, const std::string& why) {
    const std::lock_guard lock(mutex_);
    ++checks_;
    ++failures_;
    std::printf("BAD  %-64s %s\n", name.c_str(), why.c_str());
    std::fflush(stdout);
  }
  int failures() const { return failures_; }
  int checks() const { return checks_; }

 private:
  std::mutex mutex_;
  int checks_ = 0;
  int failures_ = 0;
};

}  // namespace weir::bench
