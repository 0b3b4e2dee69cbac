// Ctrl-C or SIGTERM while weir generates: the first asks it to stop, the second kills it.
#pragma once

#include <atomic>
#include <csignal>

namespace weir::cli {

// While one lives, SIGINT and SIGTERM set a flag instead of ending the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>& interrupted() const;

 private:
  struct sigaction previous_int_ {};
  struct sigaction previous_term_ {};
};

}  // namespace weir::cli
