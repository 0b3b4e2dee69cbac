// The K largest values of a row that arrives panel by panel, as a full sort would have them.
#pragma once

#include <cstdint>
#include <span>

namespace weir::cpu {

struct RankedToken {
  float y = 0;
  int32_t id = 0;
};

// Larger y first, then the lower id.
inline bool ranks_before(const RankedToken& a, const RankedToken& b) {
  return a.y != b.y ? a.y > b.y : a.id < b.id;
}

// A heap with the last-ranked token on top: once it is full, a panel whose largest value does not exceed that
// token's is skipped after one comparison.
class TopTokens {
 public:
  TopTokens() = default;
  TopTokens(RankedToken* tokens, int64_t wanted) : tokens_(tokens), wanted_(wanted) {}

  // y[0, count) belong to tokens first_id ..., above those of earlier calls; `largest` is their maximum. NaNs
  // are left out.
  void offer(const float* y, int64_t count, int32_t first_id, float largest);

  // Sorted. No more offers afterwards.
  std::span<const RankedToken> finish();

 private:
  void insert(const RankedToken& token);

  RankedToken* tokens_ = nullptr;  // [wanted]
  int64_t wanted_ = 0;
  int64_t count_ = 0;
};

}  // namespace weir::cpu
