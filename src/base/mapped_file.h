// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace weir {

class MappedFile {
 public:
  // Errors: kNotFound when the file cannot be opened, kCorrupt when it is not a regular file.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Gives back the memory that holds what has been read so far. Whoever reads on reads the file again.
  void let_go() const;

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weir
