// Chooses the next token from a row of logits.
//
// Order: mask, then logit bias, then repetition, frequency and presence penalty (as vLLM); then temperature,
// top-k, top-p and min-p (as transformers; newer vLLM applies min-p before top-k). Each truncation sees the
// distribution that the one before left, renormalised. Where vLLM keeps all tokens tied with the k-th, top-k
// here keeps exactly k, ties by the lowest id. Probabilities are float64.
//
// The draw is by inverse distribution function over the kept tokens in order of probability (in order of id
// when nothing is cut off), at a point that depends on (seed, sequence, step) alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "generate/distribution.h"
#include "generate/history.h"
#include "generate/sampling.h"
#include "generate/top_k.h"

namespace weir {

// Natural logarithm of a token's probability under the model itself: the softmax of the raw logits, before
// mask, bias, penalties, temperature and truncation, as OpenAI's and vLLM's APIs report it.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob>
      top;  // most probable first, ties by the lowest id; need not hold the chosen token
};

// One draw. `step` is the index of the token in its sequence, prompt included, so that an answer that is cut
// off and continued meets the same random numbers.
struct Draw {
  uint32_t sequence = 0;
  uint32_t step = 0;
  // Bit token % 32 of word token / 32: the token may be chosen. Empty: all may.
  std::span<const uint32_t> allowed;
  std::optional<int> top_logprobs;  // alternatives to report, [0, kMaxTopLogprobs]; unset: no logprobs at all
};

struct Sampled {
  int32_t token = 0;
  std::optional<Logprobs> logprobs;
};

class Sampler {
 public:
  // `sampling` has passed validate(sampling, vocabulary).
  Sampler(Sampling sampling, int64_t vocabulary);

  int64_t vocabulary() const { return vocabulary_; }

  // What the penalties look at. Tokens lie in [0, vocabulary).
  void add_prompt(std::span<const int32_t> tokens);
  void add_generated(int32_t token);

  // Requires `vocabulary` logits, and no mask or one of ceil(vocabulary / 32) words. -inf is a logit that is
  // never chosen. Errors: kInternal when a logit is NaN or +inf; kInvalidArgument when no token may be
  // chosen. Memory is kept between calls; only logprobs allocate.
  Result<Sampled> sample(std::span<const float> logits, const Draw& draw);

 private:
  std::span<const float> process(std::span<const float> logits, std::span<const uint32_t> allowed);
  int32_t choose(std::span<const float> logits, const Draw& draw);
  std::span<const Candidate> keep(std::span<const float> logits);
  std::span<const Candidate> reach_top_p(std::span<const float> logits);
  double weight_of(std::span<const Candidate> candidates) const;
  std::span<const Candidate> reaching(std::span<const Candidate> candidates, double weight) const;
  int32_t pick(std::span<const Candidate> kept, double point) const;
  Logprobs report(std::span<const float> logits, int32_t chosen, int count);

  Sampling sampling_;
  int64_t vocabulary_ = 0;
  TokenHistory history_;  // stays empty unless there are penalties
  TopK top_k_;
  Distribution distribution_;
  std::vector<float> processed_;  // logits after mask, bias and penalties
};

}  // namespace weir
