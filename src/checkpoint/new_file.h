// A file that has its name only once it is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace weir {

// Bytes go to "<path>.partial", which nothing takes for the file itself.
class NewFile {
 public:
  // Replaces what an interrupted run may have left. Error: kInternal, naming path and reason.
  static Result<NewFile> create(std::string path);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // removes a partial file

  // Appends. Error: kInternal when the disk is full or fails.
  Status write(std::span<const std::byte> data);

  // No more is written: the data are on the disk, still under the partial name.
  Status close();

  // Gives the closed file its name.
  Status publish();

 private:
  NewFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;  // empty once published or moved from
  int descriptor_ = -1;
};

}  // namespace weir
