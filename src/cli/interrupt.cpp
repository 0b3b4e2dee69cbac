#include "cli/interrupt.h"

namespace weir::cli {
namespace {

// Lock-free, so a signal handler may write it.
std::atomic<bool> interrupt_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request_interrupt(int) {
  interrupt_requested.store(true);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupt_requested.store(false);
  signals_.emplace(request_interrupt);
}

const std::atomic<bool>& InterruptScope::interrupted() const {
  return interrupt_requested;
}

}  // namespace weir::cli
