// Rows in a backend's memory between two guard zones, poisoned with NaN until written.
#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "kernels/steps.h"

namespace weir::bench {

class Guarded {
 public:
  Guarded(Steps& steps, int64_t rows, int64_t cols, Dtype dtype) : steps_(steps) {
    rows_ = {nullptr, rows, cols, dtype};
    const std::vector<std::byte> poison(rows_.bytes() + 2 * kGuard, std::byte{0xff});
    auto memory = steps.allocate(poison.size());
    if (!memory.ok()) return;
    memory_ = std::move(*memory);
    steps.copy_in(memory_.data(), poison.data(), poison.size());
    rows_.data = static_cast<std::byte*>(memory_.data()) + kGuard;
  }

  const Rows& rows() const { return rows_; }

  void set(std::span<const float> values) {
    std::vector<std::byte> bytes(rows_.bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      if (rows_.dtype == Dtype::kBf16) {
        const uint16_t half = to_bf16(values[i]).bits;
        std::memcpy(bytes.data() + 2 * i, &half, 2);
      } else {
        std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      }
    }
    steps_.copy_in(rows_.data, bytes.data(), bytes.size());
  }
  void set_ints(std::span<const int32_t> values) {
    steps_.copy_in(rows_.data, values.data(), 4 * values.size());
  }

  // NaN everywhere when a guard was touched.
  std::vector<float> get() const {
    std::vector<std::byte> bytes(rows_.bytes() + 2 * kGuard);
    steps_.copy_out(bytes.data(), memory_.data(), bytes.size());
    std::vector<float> out(static_cast<size_t>(rows_.rows * rows_.cols));
    for (size_t i = 0; i < out.size(); ++i) {
      if (rows_.dtype == Dtype::kBf16) {
        Bf16 half;
        std::memcpy(&half.bits, bytes.data() + kGuard + 2 * i, 2);
        out[i] = to_float(half);
      } else {
        std::memcpy(&out[i], bytes.data() + kGuard + 4 * i, 4);
      }
    }
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes[i] != std::byte{0xff} || bytes[bytes.size() - 1 - i] != std::byte{0xff}) {
        out.assign(out.size(), NAN);
        break;
      }
    }
    return out;
  }
  std::vector<int32_t> get_ints() const {
    std::vector<int32_t> out(static_cast<size_t>(rows_.rows * rows_.cols));
    steps_.copy_out(out.data(), rows_.data, 4 * out.size());
    return out;
  }

 private:
  static constexpr size_t kGuard = 4096;
  Steps& steps_;
  Buffer memory_;
  Rows rows_;
};

// Largest ||found - expected|| / ||expected|| of any row; NaN counts as infinite.
inline double worst_row_error(std::span<const float> found, std::span<const float> expected, int64_t cols) {
  double worst = 0;
  for (size_t first = 0; first < expected.size(); first += static_cast<size_t>(cols)) {
    double difference = 0, size = 0;
    for (size_t i = first; i < first + static_cast<size_t>(cols); ++i) {
      difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
      size += std::pow(static_cast<double>(expected[i]), 2);
    }
    const double error = std::sqrt(difference / size);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace weir::bench
