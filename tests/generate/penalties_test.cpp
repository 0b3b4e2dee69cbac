#include "generate/penalties.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace weir {
namespace {

std::vector<float> penalised(const Sampling& sampling, const std::vector<int32_t>& prompt,
                             const std::vector<int32_t>& generated, std::vector<float> logits) {
  TokenHistory history(static_cast<int64_t>(logits.size()));
  history.add_prompt(prompt);
  for (const int32_t token : generated) history.add_generated(token);
  apply_penalties(sampling, history, logits);
  return logits;
}

TEST(Penalties, RepetitionDividesPositiveAndMultipliesNegativeLogitsOfPromptAndAnswer) {
  Sampling sampling;
  sampling.repetition_penalty = 2;
  EXPECT_EQ(penalised(sampling, {0, 1, 1}, {2}, {3, -3, 5, 7, -7}),
            (std::vector<float>{1.5f, -6, 2.5f, 7, -7}));
}

TEST(Penalties, PresenceCountsOnceAndOnlyTheAnswer) {
  Sampling sampling;
  sampling.presence_penalty = 1.5f;
  EXPECT_EQ(penalised(sampling, {0, 1}, {1, 2, 2, 2}, {3, 3, 3, 3}), (std::vector<float>{3, 1.5f, 1.5f, 3}));
}

TEST(Penalties, FrequencyCountsEveryOccurrenceInTheAnswer) {
  Sampling sampling;
  sampling.frequency_penalty = 0.5f;
  EXPECT_EQ(penalised(sampling, {0, 0}, {1, 2, 2, 2}, {3, 3, 3, 3}), (std::vector<float>{3, 2.5f, 1.5f, 3}));
}

TEST(Penalties, RepetitionComesBeforeTheSubtractions) {
  Sampling sampling;
  sampling.repetition_penalty = 4;
  sampling.frequency_penalty = 0.25f;
  sampling.presence_penalty = -1;
  // 8 / 4 - 2 * 0.25 + 1, and -1 * 4 - 0.25 + 1.
  EXPECT_EQ(penalised(sampling, {}, {0, 1, 0}, {8, -1, 1}), (std::vector<float>{2.5f, -3.25f, 1}));
}

TEST(Penalties, MinusInfinityStaysMinusInfinity) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Sampling sampling;
  sampling.repetition_penalty = 0.5f;
  sampling.presence_penalty = -2;
  EXPECT_EQ(penalised(sampling, {0}, {1}, {kNever, kNever}), (std::vector<float>{kNever, kNever}));
}

}  // namespace
}  // namespace weir
