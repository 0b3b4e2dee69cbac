// The k largest logits, exactly, without sorting a whole vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

struct Candidate {
  float logit = 0;
  int32_t token = 0;
};

// Larger logit first, ties by the lower id: a strict total order when no logit is NaN.
inline bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Two passes. The first takes the maximum of each block of 64 logits. The k-th largest block maximum is a
// lower bound of the k-th largest logit, since k blocks hold at least one logit each that reaches it; the
// second pass gathers the logits that reach the bound, from the blocks that do, and only these are ordered.
class TopK {
 public:
  static constexpr int64_t kBlock = 64;

  // First pass. `logits` must stay as they are until the last select(). Requires no NaN, and at least one
  // logit.
  void scan(std::span<const float> logits);

  float largest() const { return largest_; }  // of the scanned logits

  // The min(k, logits) first in order, valid until the next call: equal to the head of a full sort.
  std::span<const Candidate> select(int64_t k);

  // All logits >= threshold, in order, valid until the next call.
  std::span<const Candidate> at_least(float threshold);

 private:
  void gather(float threshold);

  std::span<const float> logits_;
  std::vector<float> maxima_;   // one a block
  std::vector<float> ordered_;  // scratch: maxima_ while its k-th is looked for
  std::vector<Candidate> candidates_;
  float largest_ = 0;
};

}  // namespace weir
