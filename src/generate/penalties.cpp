#include "generate/penalties.h"

namespace weir {

void apply_penalties(const Sampling& sampling, const TokenHistory& history, std::span<float> logits) {
  for (const auto& [token, generated] : history.entries()) {
    float& logit = logits[static_cast<size_t>(token)];
    if (sampling.repetition_penalty != 1) {
      logit = logit > 0 ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
    }
    if (generated > 0) {
      logit -= sampling.frequency_penalty * static_cast<float>(generated);
      logit -= sampling.presence_penalty;
    }
  }
}

}  // namespace weir
