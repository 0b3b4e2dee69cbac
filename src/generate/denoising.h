// How a canvas is denoised: the reference sampler's settings, and departures from it that a caller opts into
// one by one. All off, the sampler is the reference's (transformers, DiffusionGemma generation).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/result.h"
#include "kernels/state.h"

namespace weir {

// The reference's rule: positions by rising entropy are accepted as long as the entropies of those before add
// up to at most `bound` nats; the first always is.
struct EntropyBound {
  float bound = 0.1f;
};

// A position is accepted when its most probable token has at least this probability: `high` in the first
// `high_steps` steps, `low` after them. The most confident position always is.
struct ConfidenceThreshold {
  float high = 0.9f;
  float low = 0.9f;
  int64_t high_steps = 0;
};

using Acceptance = std::variant<EntropyBound, ConfidenceThreshold>;

// An accepted position keeps its token for good, once it has been accepted `after` times in a row with one
// most probable token. A frozen position is still forwarded, unless passes are compacted.
struct Freezing {
  int64_t after = 1;
};

// Passes forward only positions that are not frozen, and once more those frozen in the step before, so that
// their keys and values show the token they froze with; those of the others grow stale.
struct Compaction {
  // All positions are forwarded when the tokens that have changed since the last full pass make up this share
  // of the canvas; 0: never.
  float refresh_share = 0;
  // A frozen position whose token is no longer the most probable one in such a pass is set free again.
  bool thaw = false;
  // Rows of a pass are rounded up to a multiple of this; the places are used to refresh the stalest
  // positions.
  int64_t bucket = 1;
};

// Denoising ends after `steps` passes, at temperatures of the unchanged schedule. With `flush` the last but
// one accepts the best token everywhere, so that the last pass sees a whole text before its best tokens are
// committed.
struct StepCap {
  int64_t steps = 16;
  bool flush = false;
};

// The canvas is done as soon as, at every position that counts, the best token is that much more probable
// than the next one; stability is not waited for (Prophet, arXiv 2508.19982).
struct GapStop {
  float gap = 0.9f;
};

// The finished text is read once more by the same weights as a causal model, which a canvas needs for its
// keys and values anyway. The first position where that reader gives another token at least the probability
// `sure` takes its token; it and all before it are frozen, and denoising goes on with the rest.
struct CausalCheck {
  float sure = 0.8f;
};

struct Denoising {
  // The reference's settings, from generation_config.json.
  int64_t steps = 48;
  float t_max = 0.8f;
  float t_min = 0.4f;
  Acceptance acceptance = EntropyBound{};
  int64_t stability = 1;      // steps that the best tokens must have stayed the same
  float confidence = 0.005f;  // mean entropy, in nats, below which a stable canvas is done

  // Departures.
  int32_t soft_tokens = kAllTokens;  // self-conditioning sees this many tokens of each position
  bool greedy_accept = false;        // accepted positions take the most probable token, not a sample
  std::optional<Freezing> freezing;
  std::optional<Compaction> compaction;  // needs freezing
  std::optional<StepCap> cap;
  std::optional<GapStop> gap_stop;
  bool answer_stop = false;  // the stop rules look at the answer alone: up to the first end token, not beyond
  bool tail_drop = false;    // positions behind a frozen end token are frozen as they are
  bool repair = false;       // one more pass over the finished canvas, whose best tokens are committed
  int64_t repeat_guard = 0;  // the answer ends where a token stands this many times in a row; 0: never
  std::optional<CausalCheck> causal_check;

  // The temperature of a step, from 0: t_min + (t_max - t_min) * (steps - step) / steps.
  float temperature(int64_t step) const {
    return t_min + (t_max - t_min) * static_cast<float>(steps - step) / static_cast<float>(steps);
  }
};

// Error: kInvalidArgument, naming the setting, its value and what it may be.
Status validate(const Denoising& denoising);

}  // namespace weir
