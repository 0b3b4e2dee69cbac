// Work that can be interrupted: the first signal asks it to stop, the second kills it.
#pragma once

#include <atomic>
#include <optional>

#include "cli/ending_signals.h"

namespace weir::cli {

// While one lives, the signals set a flag instead of ending the process.
class InterruptScope {
 public:
  InterruptScope();

  const std::atomic<bool>& interrupted() const;

 private:
  std::optional<EndingSignals> signals_;
};

}  // namespace weir::cli
