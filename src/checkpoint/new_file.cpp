#include "checkpoint/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weir {
namespace {

std::string partial(const std::string& path) {
  return path + ".partial";
}

Error cannot_write(const std::string& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return {Code::kInternal, "cannot write " + path + ": " + std::strerror(errno),
          full ? "free some space or name a folder on another disk" : "check the path and its permissions"};
}

}  // namespace

Result<NewFile> NewFile::create(std::string path) {
  const int descriptor =
      ::open(partial(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return cannot_write(path);
  return NewFile(std::move(path), descriptor);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!path_.empty()) ::unlink(partial(path_).c_str());
}

Status NewFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_);
    data = data.subspan(static_cast<size_t>(written));
  }
  return Ok{};
}

// Some file systems report a full disk only here.
Status NewFile::close() {
  const bool synced = ::fsync(descriptor_) == 0;
  const int failure = errno;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!synced) errno = failure;
  if (!synced || !closed) return cannot_write(path_);
  return Ok{};
}

Status NewFile::publish() {
  if (std::rename(partial(path_).c_str(), path_.c_str()) != 0) return cannot_write(path_);
  path_.clear();
  return Ok{};
}

}  // namespace weir
