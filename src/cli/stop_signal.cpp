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
  signals_.emplace(request_stop);
}

void StopSignal::wait() {
  while (::sem_wait(&stop_requested) != 0 && errno == EINTR) {
  }
}

}  // namespace weir::cli
