// Small model folders written by tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::testing {

// An empty folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "/weir-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream file(*this / name, std::ios::binary);
    file << content;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Header length, header, data.
inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(data);
}

struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

inline std::string safetensors(const std::vector<StoredTensor>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.data;
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return raw_safetensors(header.dump(), data);
}

// A tensor of zeros, two bytes an element.
inline StoredTensor bf16_zeros(std::string name, std::vector<int64_t> shape) {
  size_t size = 2;
  for (const int64_t dimension : shape) size *= static_cast<size_t>(dimension);
  return {std::move(name), "BF16", std::move(shape), std::string(size, '\0')};
}

}  // namespace weir::testing
