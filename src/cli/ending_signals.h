// The signals that ask a program to end: Ctrl-C, SIGTERM, and SIGHUP, which a terminal that closes sends.
#pragma once

#include <array>
#include <csignal>

namespace weir::cli {

inline constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// While one lives, the first of each calls `handler`, and a second one ends the process. A signal that was
// ignored stays so, as nohup(1) wants it for SIGHUP.
class EndingSignals {
 public:
  explicit EndingSignals(void (*handler)(int));
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

 private:
  std::array<struct sigaction, kEndingSignals.size()> previous_;
};

}  // namespace weir::cli
