#include "generate/distribution.h"

#include <algorithm>
#include <limits>

namespace weir {
namespace {

constexpr size_t kBlock = 64;

}  // namespace

float Distribution::logit_of(double weight) const {
  const double exact = largest_ + temperature_ * std::log(weight);
  return std::nextafter(static_cast<float>(exact), -std::numeric_limits<float>::infinity());
}

double Distribution::sum(std::span<const float> logits) {
  blocks_.clear();
  sum_ = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    double block = 0;
    for (const float logit : logits.subspan(begin, std::min(kBlock, logits.size() - begin))) {
      block += weight(logit);
    }
    blocks_.push_back(block);
    sum_ += block;
  }
  return sum_;
}

int32_t Distribution::index_at(std::span<const float> logits, double point) const {
  double rest = point * sum_;
  size_t block = 0;
  size_t last = 0;  // the last block with any weight, for a point that rounding pushed past the end
  for (; block < blocks_.size() && rest >= blocks_[block]; ++block) {
    rest -= blocks_[block];
    if (blocks_[block] > 0) last = block;
  }
  if (block == blocks_.size()) block = last;
  const size_t begin = block * kBlock;
  const size_t end = std::min(begin + kBlock, logits.size());
  size_t chosen = begin;
  for (size_t i = begin; i < end; ++i) {
    const double w = weight(logits[i]);
    if (w == 0) continue;
    chosen = i;
    if (rest < w) break;
    rest -= w;
  }
  return static_cast<int32_t>(chosen);
}

}  // namespace weir
