#include "cli/belief_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace weir::cli {
namespace {

// Logits of these probabilities, moved by a constant, which changes nothing.
std::vector<float> logits_of(const std::vector<double>& probabilities, double shift) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + shift));
  return logits;
}

TEST(BeliefScore, PerplexityAndDivergenceFollowTheirDefinitions) {
  const std::vector<double> p = {0.5, 0.25, 0.25}, q = {0.25, 0.25, 0.5};
  BeliefScore score;
  score.add(logits_of(q, 3), logits_of(p, -40), 0);
  score.add(logits_of(q, 0), logits_of(p, 0), 2);
  EXPECT_EQ(score.tokens, 2);
  EXPECT_NEAR(score.perplexity(), std::sqrt(4.0 * 2.0), 1e-5);
  EXPECT_NEAR(score.reference_perplexity(), std::sqrt(2.0 * 4.0), 1e-5);
  EXPECT_NEAR(score.divergence, 2 * (0.5 * std::log(2.0) + 0.25 * std::log(0.5)), 1e-5);
  EXPECT_EQ(score.same_best, 0);
}

TEST(BeliefScore, AModelDoesNotDivergeFromItself) {
  const auto logits = logits_of({0.1, 0.7, 0.2}, 700);
  BeliefScore score;
  score.add(logits, logits, 1);
  EXPECT_NEAR(score.divergence, 0, 1e-12);
  EXPECT_EQ(score.same_best, 1);
}

TEST(BeliefScore, WithoutAReferenceOnlyTheTextCounts) {
  BeliefScore score;
  score.add(logits_of({0.2, 0.8}, 0), {}, 1);
  EXPECT_NEAR(score.perplexity(), 1.25, 1e-5);
  EXPECT_EQ(score.divergence, 0);
}

}  // namespace
}  // namespace weir::cli
