#include "cli/stop_signal.h"

#include <semaphore.h>

#include <cerrno>

namespace weir::cli {
namespace {

// Posting a semaphore is one of the few things that a signal handler may do (signal-safety(7)).
sem_t stop_requested;

void request_stop(int) {
  const int before = errno;
  ::sem_post(&stop_requested);
  errno = before;
}

}  // namespace

StopSignal::StopSignal() {
  ::sem_init(&stop_requested, 0, 0);
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, &previous_int_);
  ::sigaction(SIGTERM, &action, &previous_term_);
}

StopSignal::~StopSignal() {
  ::sigaction(SIGINT, &previous_int_, nullptr);
  ::sigaction(SIGTERM, &previous_term_, nullptr);
}

void StopSignal::wait() {
  while (::sem_wait(&stop_requested) != 0 && errno == EINTR) {
  }
}

}  // namespace weir::cli
