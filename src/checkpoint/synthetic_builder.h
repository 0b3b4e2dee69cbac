// What synthetic checkpoints are made of: quantised matrices that are windows of one random pool, and small
// vectors.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor.h"

namespace weir::synthetic {

inline constexpr int64_t kGroup = 64;  // values of a matrix that share scale and bias

class Builder {
 public:
  // `largest` is the most bytes of quantised values that any matrix has.
  explicit Builder(int64_t largest);

  // [stack, rows, cols], or [rows, cols] for stack 0, in affine 2, 3, 4 or 8 bits: uniform q, and scale and
  // bias such that w has mean 0 and variance 1 / cols.
  void matrix(const std::string& module, int64_t stack, int64_t rows, int64_t cols, int64_t bits);

  // `count` values spread evenly over [low, high]; all the same where the two are equal.
  void vector(const std::string& name, std::vector<int64_t> shape, int64_t count, float low, float high);

  // The same number in [0, 1) for `index` in every run.
  static float uniform(int64_t index);

  // The checkpoint of all that was added. The builder is empty afterwards.
  Result<Checkpoint> finish(std::string origin, nlohmann::json config);

 private:
  struct Memory {
    std::vector<uint32_t> pool;
    std::map<std::pair<float, int64_t>, std::vector<uint16_t>> constants;  // by value and count
    std::deque<std::vector<uint16_t>> small;
  };

  size_t next_offset();
  void constant(const std::string& name, std::vector<int64_t> shape, int64_t count, float value);

  std::shared_ptr<Memory> memory_;
  std::vector<TensorView> tensors_;
  size_t offset_ = 0;
};

}  // namespace weir::synthetic
