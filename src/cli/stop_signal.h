// Waits for the signal that ends a server: SIGINT or SIGTERM.
#pragma once

#include <csignal>

namespace weir::cli {

// While one lives, the first of these signals is waited for instead of ending the process; a second one ends
// it.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void wait();

 private:
  struct sigaction previous_int_ {};
  struct sigaction previous_term_ {};
};

}  // namespace weir::cli
