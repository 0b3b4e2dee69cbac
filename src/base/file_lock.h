// A file that one process at a time may write.
#pragma once

#include <string>

#include "base/result.h"

namespace weir {

// Held until destroyed, or until the process ends however it ends (flock(2)). Readers are not kept out.
class FileLock {
 public:
  // The file is made when it is not there. Errors: kBusy when another holder has it, kNotFound when it cannot
  // be opened for writing.
  static Result<FileLock> take(const std::string& path);

  FileLock() = default;  // holds nothing
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace weir
