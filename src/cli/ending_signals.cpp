#include "cli/ending_signals.h"

namespace weir::cli {

EndingSignals::EndingSignals(void (*handler)(int)) : previous_{} {
  struct sigaction action {};
  action.sa_handler = handler;
  // The default action is back after the first signal.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (size_t i = 0; i < kEndingSignals.size(); ++i) {
    ::sigaction(kEndingSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler != SIG_IGN) ::sigaction(kEndingSignals[i], &action, nullptr);
  }
}

EndingSignals::~EndingSignals() {
  for (size_t i = 0; i < kEndingSignals.size(); ++i) ::sigaction(kEndingSignals[i], &previous_[i], nullptr);
}

}  // namespace weir::cli
