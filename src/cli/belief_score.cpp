#include "cli/belief_score.h"

#include <algorithm>
#include <cmath>

namespace weir::cli {
namespace {

// log of the sum of e^logit.
double log_total(std::span<const float> logits) {
  const auto most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double total = 0;
  for (const float y : logits) total += std::exp(static_cast<double>(y) - most);
  return most + std::log(total);
}

double mean(double sum, int64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

int64_t best(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

double BeliefScore::perplexity() const {
  return std::exp(mean(surprise, tokens));
}

double BeliefScore::reference_perplexity() const {
  return std::exp(mean(reference_surprise, tokens));
}

void BeliefScore::add(std::span<const float> logits, std::span<const float> reference, int32_t token) {
  const auto at = static_cast<size_t>(token);
  const double total = log_total(logits);
  ++tokens;
  surprise += total - static_cast<double>(logits[at]);
  if (reference.empty()) return;
  const double reference_total = log_total(reference);
  reference_surprise += reference_total - static_cast<double>(reference[at]);
  same_best += best(logits) == best(reference) ? 1 : 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - reference_total;
    const double log_q = static_cast<double>(logits[i]) - total;
    divergence += std::exp(log_p) * (log_p - log_q);
  }
}

}  // namespace weir::cli
