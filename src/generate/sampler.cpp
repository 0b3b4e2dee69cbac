#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "generate/penalties.h"

namespace weir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kFirstGuess =
    1.0 / 64;  // of the best token's probability: the least that usually matters to top-p

// False for NaN and for +inf.
bool all_below_infinity(std::span<const float> logits) {
  bool all = true;
  for (const float logit : logits) all &= logit < kInfinity;
  return all;
}

Error bad_logits(const char* what) {
  return Error{Code::kInternal, std::string("the model produced ") + what,
               "the checkpoint or the kernel in use may be faulty; compare with the reference kernels"};
}

bool truncates(const Sampling& sampling) {
  return sampling.top_k > 0 || sampling.top_p < 1 || sampling.min_p > 0;
}

}  // namespace

Sampler::Sampler(Sampling sampling, int64_t vocabulary)
    : sampling_(std::move(sampling)),
      vocabulary_(vocabulary),
      history_(has_penalties(sampling_) ? vocabulary : 0) {}

void Sampler::add_prompt(std::span<const int32_t> tokens) {
  if (has_penalties(sampling_)) history_.add_prompt(tokens);
}

void Sampler::add_generated(int32_t token) {
  if (has_penalties(sampling_)) history_.add_generated(token);
}

Result<Sampled> Sampler::sample(std::span<const float> logits, const Draw& draw) {
  WEIR_CHECK(static_cast<int64_t>(logits.size()) == vocabulary_);
  if (!all_below_infinity(logits)) return bad_logits("a logit that is NaN or infinite");
  const auto processed = process(logits, draw.allowed);
  top_k_.scan(processed);
  if (top_k_.largest() == -kInfinity) {
    if (draw.allowed.empty()) return bad_logits("no logit above -inf");
    return Error{Code::kInvalidArgument, "the output constraint leaves no token to choose", ""};
  }
  Sampled sampled;
  sampled.token = choose(processed, draw);
  if (draw.top_logprobs) sampled.logprobs = report(logits, sampled.token, *draw.top_logprobs);
  return sampled;
}

std::span<const float> Sampler::process(std::span<const float> logits, std::span<const uint32_t> allowed) {
  if (allowed.empty() && sampling_.logit_bias.empty() && !has_penalties(sampling_)) return logits;
  processed_.assign(logits.begin(), logits.end());
  if (!allowed.empty()) {
    WEIR_CHECK(static_cast<int64_t>(allowed.size()) == (vocabulary_ + 31) / 32);
    for (size_t i = 0; i < processed_.size(); ++i) {
      if (((allowed[i / 32] >> (i % 32)) & 1u) == 0) processed_[i] = -kInfinity;
    }
  }
  for (const auto& [token, bias] : sampling_.logit_bias) processed_[static_cast<size_t>(token)] += bias;
  apply_penalties(sampling_, history_, processed_);
  return processed_;
}

int32_t Sampler::choose(std::span<const float> logits, const Draw& draw) {
  if (sampling_.temperature == 0) return top_k_.select(1).front().token;
  const double point = random_uniform({sampling_.seed, draw.sequence, draw.step, 0, Purpose::kSampleToken});
  distribution_.reset(top_k_.largest(), sampling_.temperature);
  if (truncates(sampling_)) return pick(keep(logits), point);
  distribution_.sum(logits);
  return distribution_.index_at(logits, point);
}

std::span<const Candidate> Sampler::keep(std::span<const float> logits) {
  std::span<const Candidate> kept;
  if (sampling_.top_k > 0) {
    kept = top_k_.select(sampling_.top_k);
    if (sampling_.top_p < 1) kept = reaching(kept, sampling_.top_p * weight_of(kept));
  } else if (sampling_.top_p < 1) {
    kept = reach_top_p(logits);
  } else {
    kept = top_k_.at_least(distribution_.logit_of(sampling_.min_p));
  }
  while (distribution_.weight(kept.back().logit) < sampling_.min_p) kept = kept.first(kept.size() - 1);
  return kept;
}

// Top-p of the whole vocabulary: candidates of less and less weight, until they reach the probability asked
// for. Those below (1 - top_p) / vocabulary of the whole cannot be needed, since even all of them together
// are less than what top_p leaves out.
std::span<const Candidate> Sampler::reach_top_p(std::span<const float> logits) {
  const double whole = distribution_.sum(logits);
  const double never = (1 - static_cast<double>(sampling_.top_p)) * whole / static_cast<double>(vocabulary_);
  for (double least = kFirstGuess;; least /= 16) {
    const auto candidates = top_k_.at_least(distribution_.logit_of(std::max(least, never)));
    const auto kept = reaching(candidates, sampling_.top_p * whole);
    if (kept.size() < candidates.size() || least <= never) return kept;
  }
}

double Sampler::weight_of(std::span<const Candidate> candidates) const {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += distribution_.weight(candidate.logit);
  return sum;
}

// The fewest candidates, at least one, whose weights reach `weight`; all if they never do.
std::span<const Candidate> Sampler::reaching(std::span<const Candidate> candidates, double weight) const {
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += distribution_.weight(candidates[i].logit);
    if (sum >= weight) return candidates.first(i + 1);
  }
  return candidates;
}

// The candidate that `point` in [0, 1) falls on when the interval is divided by weight.
int32_t Sampler::pick(std::span<const Candidate> kept, double point) const {
  double rest = point * weight_of(kept);
  int32_t token = kept.front().token;
  for (const Candidate& candidate : kept) {
    const double weight = distribution_.weight(candidate.logit);
    if (weight == 0) break;
    token = candidate.token;
    if (rest < weight) break;
    rest -= weight;
  }
  return token;
}

Logprobs Sampler::report(std::span<const float> logits, int32_t chosen, int count) {
  top_k_.scan(logits);
  distribution_.reset(top_k_.largest(), 1);
  const double log_sum = std::log(distribution_.sum(logits)) + top_k_.largest();
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  Logprobs logprobs;
  logprobs.chosen = {chosen, logprob(logits[static_cast<size_t>(chosen)])};
  for (const Candidate& candidate : top_k_.select(count)) {
    if (candidate.logit == -kInfinity) break;
    logprobs.top.push_back({candidate.token, logprob(candidate.logit)});
  }
  return logprobs;
}

}  // namespace weir
