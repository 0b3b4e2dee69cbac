#include "checkpoint/synthetic_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "base/bf16.h"
#include "base/random.h"

namespace weir::synthetic {
namespace {

constexpr uint64_t kSeed = 1;

// Matrices start at different places of the pool, so it is larger than the largest by the distance between
// the first and the last place.
constexpr size_t kSpread = size_t{16} << 20;

}  // namespace

Builder::Builder(int64_t largest) : memory_(std::make_shared<Memory>()) {
  std::vector<uint32_t>& pool = memory_->pool;
  pool.resize((static_cast<size_t>(largest) + kSpread) / sizeof(uint32_t));
  for (size_t i = 0; i + 4 <= pool.size(); i += 4) {
    const auto words =
        random_words({.seed = kSeed, .step = static_cast<uint32_t>(i), .purpose = Purpose::kSynthetic});
    std::memcpy(&pool[i], words.data(), sizeof(words));
  }
}

void Builder::matrix(const std::string& module, int64_t stack, int64_t rows, int64_t cols, int64_t bits) {
  std::vector<int64_t> shape{rows, cols * bits / 32};
  std::vector<int64_t> scale_shape{rows, cols / kGroup};
  if (stack > 0) {
    shape.insert(shape.begin(), stack);
    scale_shape.insert(scale_shape.begin(), stack);
  }
  const int64_t values = std::max<int64_t>(stack, 1) * rows * cols;
  const auto bytes = static_cast<size_t>(values * bits / 8);
  TensorView weight{module + ".weight", Dtype::kU32, shape, {}};
  weight.data = std::as_bytes(std::span(memory_->pool)).subspan(next_offset(), bytes);
  tensors_.push_back(weight);

  const double levels = static_cast<double>((int64_t{1} << bits) - 1);
  const double deviation = std::sqrt((levels * (levels + 2)) / 12.0);  // of a uniform integer in [0, levels]
  const double scale = 1.0 / (deviation * std::sqrt(static_cast<double>(cols)));
  constant(module + ".scales", scale_shape, values / kGroup, static_cast<float>(scale));
  constant(module + ".biases", scale_shape, values / kGroup, static_cast<float>(-scale * levels / 2));
}

void Builder::vector(const std::string& name, std::vector<int64_t> shape, int64_t count, float low,
                     float high) {
  std::vector<uint16_t>& values = memory_->small.emplace_back(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = to_bf16(low + uniform(static_cast<int64_t>(i)) * (high - low)).bits;
  }
  tensors_.push_back({name, Dtype::kBf16, std::move(shape), std::as_bytes(std::span(values))});
}

float Builder::uniform(int64_t index) {
  return random_uniform({.seed = kSeed, .block = 1, .step = static_cast<uint32_t>(index)});
}

Result<Checkpoint> Builder::finish(std::string origin, nlohmann::json config) {
  const std::vector<TensorView> tensors = std::move(tensors_);
  return Checkpoint::from_memory(std::move(origin), std::move(config), tensors, std::move(memory_));
}

// Starting points step through the spread in a fixed odd stride of words.
size_t Builder::next_offset() {
  offset_ = (offset_ + 1234567 * sizeof(uint32_t)) % kSpread;
  return offset_;
}

// Scales and biases of matrices of one shape are the same array.
void Builder::constant(const std::string& name, std::vector<int64_t> shape, int64_t count, float value) {
  std::vector<uint16_t>& values = memory_->constants[{value, count}];
  if (values.empty()) values.assign(static_cast<size_t>(count), to_bf16(value).bits);
  tensors_.push_back({name, Dtype::kBf16, std::move(shape), std::as_bytes(std::span(values))});
}

}  // namespace weir::synthetic
