// The softmax of a row of logits at a temperature, in float64 and not normalised.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

class Distribution {
 public:
  // `largest` is the largest logit of the row, finite; `temperature` is positive.
  void reset(float largest, float temperature) {
    largest_ = largest;
    temperature_ = temperature;
  }

  // exp((logit - largest) / temperature): 1 for the largest logit, 0 for -inf.
  double weight(float logit) const {
    return std::exp((static_cast<double>(logit) - largest_) / temperature_);
  }

  // The smallest logit, or a little less, whose weight reaches `weight` in (0, 1].
  float logit_of(double weight) const;

  // Sum of the weights of all logits, added within blocks and then from block to block.
  double sum(std::span<const float> logits);

  // The index that `point` in [0, 1) falls on when the interval is divided by weight in order of index.
  // Requires that sum(logits) was called last.
  int32_t index_at(std::span<const float> logits, double point) const;

 private:
  double largest_ = 0;
  double temperature_ = 1;
  double sum_ = 0;
  std::vector<double> blocks_;  // sums of 64 weights each
};

}  // namespace weir
