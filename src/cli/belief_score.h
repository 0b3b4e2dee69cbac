// How well distributions over tokens predict a text, and how far two of them are apart.
#pragma once

#include <cstdint>
#include <span>

namespace weir::cli {

// Sums over predicted tokens; float64 from float32 logits.
struct BeliefScore {
  int64_t tokens = 0;
  double surprise = 0;            // -log p(token), nats
  double reference_surprise = 0;  // the same of the model compared with
  double divergence = 0;          // KL(reference || model), nats
  int64_t same_best = 0;          // both models have the same most probable token

  double perplexity() const;
  double reference_perplexity() const;

  // One token. `reference` may be empty; otherwise as long as `logits`.
  void add(std::span<const float> logits, std::span<const float> reference, int32_t token);
};

}  // namespace weir::cli
