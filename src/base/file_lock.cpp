#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace weir {

Result<FileLock> FileLock::take(const std::string& path) {
  // Not blocking: a FIFO of that name is not waited for.
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) {
    return Error{Code::kNotFound, "cannot write " + path + ": " + std::strerror(errno), "name another file"};
  }
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return Error{Code::kBusy, path + " is being written by another process",
                 "wait for it, or name another file"};
  }
  return Error{Code::kNotFound, "cannot lock " + path + ": " + std::strerror(errno), "name another file"};
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace weir
