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
  struct sigaction action {};
  action.sa_handler = request_interrupt;
  // The default action is back after the first signal, so that a second one ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, &previous_int_);
  ::sigaction(SIGTERM, &action, &previous_term_);
}

InterruptScope::~InterruptScope() {
  ::sigaction(SIGINT, &previous_int_, nullptr);
  ::sigaction(SIGTERM, &previous_term_, nullptr);
}

const std::atomic<bool>& InterruptScope::interrupted() const {
  return interrupt_requested;
}

}  // namespace weir::cli
