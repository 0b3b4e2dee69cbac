// Ctrl-C while weir generates: the first asks it to stop, the second kills it.
#pragma once

#include <atomic>
#include <csignal>

namespace weir::cli {

// While one lives, SIGINT sets a flag instead of ending the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>& interrupted() const;

 private:
  struct sigaction previous_ {};
};

}  // namespace weir::cli
