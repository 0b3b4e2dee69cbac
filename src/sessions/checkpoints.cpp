#include "sessions/checkpoints.h"

#include <set>

namespace weir {

Checkpoints::Checkpoints(const Tokenizer& tokenizer, bool is_diffusion)
    : is_diffusion_(is_diffusion), opens_turn_(tokenizer.find("<|im_start|>").value_or(-1)) {}

std::vector<int64_t> Checkpoints::positions(std::span<const int32_t> prompt, int64_t reused,
                                            int64_t common) const {
  const auto size = static_cast<int64_t>(prompt.size());
  const int64_t last = is_diffusion_ ? size : before_generation(prompt);
  std::set<int64_t> positions;
  for (int64_t p = (reused / kStride + 1) * kStride; p < last; p += kStride) positions.insert(p);
  if (!is_diffusion_ && common >= reused + kLeastShared && common < last) positions.insert(common);
  if (last > reused) positions.insert(last);
  return {positions.begin(), positions.end()};
}

int64_t Checkpoints::before_generation(std::span<const int32_t> prompt) const {
  for (size_t i = prompt.size(); i-- > 1;) {
    if (prompt[i] == opens_turn_) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(prompt.size()) - 1;
}

}  // namespace weir
