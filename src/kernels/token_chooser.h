// Choosing the next token where the logits are, so that decoding needs no logits on the host.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"
#include "kernels/memory.h"

namespace weir {

// How tokens are chosen: fields, order and draws are those of the host's sampler (generate/sampling.h,
// generate/sampler.h), which a chooser agrees with but for ties by rounding.
struct ChoiceRules {
  int64_t vocabulary = 0;  // only the first so many logits count
  float temperature = 1;
  int64_t top_k = 0;  // at most 0: all
  float top_p = 1;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  std::span<const std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
  uint32_t sequence = 0;
};

// The choices of one answer, in order.
class TokenChooser {
 public:
  virtual ~TokenChooser() = default;

  // Queues the choice of the next token from `logits`, [1, V], the last result of the pass queued before. The
  // pass may be followed by one of a single row that takes the token from here (Batch::chosen).
  virtual void choose(Rows logits) = 0;

  // Waits for the oldest choice that has not been taken yet; there is one. Errors: kInternal when the logits
  // held a NaN, an infinity or nothing to choose; those of Steps::finish for the passes before.
  virtual Result<int32_t> take() = 0;
};

}  // namespace weir
