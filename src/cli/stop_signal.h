// Waits for the signal that ends a server.
#pragma once

#include <optional>

#include "cli/ending_signals.h"

namespace weir::cli {

// While one lives, the first of the signals is waited for instead of ending the process.
class StopSignal {
 public:
  StopSignal();

  void wait();

 private:
  std::optional<EndingSignals> signals_;
};

}  // namespace weir::cli
