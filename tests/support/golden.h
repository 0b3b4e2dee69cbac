// Reference outputs: tensors of a golden.safetensors file, and how far ours are from them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace weir::test {

class Golden {
 public:
  explicit Golden(const std::string& path) : file_(SafetensorsFile::open(path)) {
    EXPECT_TRUE(file_.ok()) << file_.error().message;
  }

  // An entry of the header's metadata, which the engine itself does not read.
  std::string metadata(const std::string& key) const {
    std::ifstream file(file_->path(), std::ios::binary);
    uint64_t size = 0;
    file.read(reinterpret_cast<char*>(&size), sizeof(size));
    std::string header(size, ' ');
    file.read(header.data(), static_cast<std::streamsize>(size));
    return nlohmann::json::parse(header)["__metadata__"][key].get<std::string>();
  }

  bool has(const std::string& name) const { return file_->find(name) != nullptr; }

  std::vector<float> floats(const std::string& name) const { return read<float>(name, Dtype::kF32); }
  std::vector<int32_t> ints(const std::string& name) const { return read<int32_t>(name, Dtype::kI32); }
  // Ids that are stored as int16, and flags.
  std::vector<int32_t> ids(const std::string& name) const {
    const auto stored = read<int16_t>(name, Dtype::kI16);
    return {stored.begin(), stored.end()};
  }
  std::vector<uint8_t> flags(const std::string& name) const { return read<uint8_t>(name, Dtype::kU8); }
  // float16, widened.
  std::vector<float> halves(const std::string& name) const {
    const TensorView* tensor = file_->find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<float> out;
    for (int64_t i = 0; tensor != nullptr && i < tensor->elements(); ++i) {
      out.push_back(load_float(Dtype::kF16, tensor->data.data(), i));
    }
    return out;
  }

 private:
  template <class T>
  std::vector<T> read(const std::string& name, Dtype dtype) const {
    const TensorView* tensor = file_->find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    EXPECT_EQ(tensor->dtype, dtype) << name;
    std::vector<T> out(static_cast<size_t>(tensor->elements()));
    std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
    return out;
  }

  Result<SafetensorsFile> file_;
};

// Largest difference over the largest value of `expected`; infinite for different sizes or a NaN.
inline double relative_error(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size() || expected.empty()) return INFINITY;
  double worst = 0, scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
    if (std::isnan(difference)) return INFINITY;
    worst = std::max(worst, difference);
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return worst / scale;
}

// Root mean square of the difference over that of `expected`.
inline double relative_rms(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size() || expected.empty()) return INFINITY;
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference +=
        (static_cast<double>(found[i]) - expected[i]) * (static_cast<double>(found[i]) - expected[i]);
    size += static_cast<double>(expected[i]) * expected[i];
  }
  return std::isnan(difference) ? INFINITY : std::sqrt(difference / size);
}

// Largest difference; infinite for different sizes or a NaN.
inline double largest_difference(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size() || expected.empty()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
    if (std::isnan(difference)) return INFINITY;
    worst = std::max(worst, difference);
  }
  return worst;
}

// The last rows of `found` that a golden with fewer rows holds.
inline std::span<const float> last(std::span<const float> found, size_t count) {
  return found.size() > count ? found.last(count) : found;
}

}  // namespace weir::test
