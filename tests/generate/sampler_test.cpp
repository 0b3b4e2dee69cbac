#include "generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "base/random.h"
#include "generate/reference_sampler.h"

namespace weir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int32_t draw_token(Sampler& sampler, const std::vector<float>& logits, uint32_t step, uint32_t sequence = 0) {
  Draw draw;
  draw.step = step;
  draw.sequence = sequence;
  const auto sampled = sampler.sample(logits, draw);
  EXPECT_TRUE(sampled.ok()) << sampled.error().message;
  return sampled.ok() ? sampled->token : -1;
}

// Draws many tokens and compares: the support exactly, the frequencies by Pearson's chi-square statistic. The
// bound is four standard deviations above the mean (and some, for few degrees of freedom); seeds are fixed.
void expect_distribution(const Sampling& sampling, const std::vector<float>& logits, size_t support) {
  constexpr int kDraws = 40000;
  const auto expected = test::reference_distribution(logits, sampling, {}, {});
  ASSERT_EQ(expected.size(), support);
  std::vector<int> counts(logits.size());
  Sampler sampler(sampling, static_cast<int64_t>(logits.size()));
  for (int step = 0; step < kDraws; ++step) {
    ++counts[static_cast<size_t>(draw_token(sampler, logits, static_cast<uint32_t>(step)))];
  }
  std::set<int32_t> drawn, allowed;
  for (size_t t = 0; t < counts.size(); ++t) {
    if (counts[t] > 0) drawn.insert(static_cast<int32_t>(t));
  }
  double statistic = 0;
  for (const auto& [token, probability] : expected) {
    const double mean = static_cast<double>(probability) * kDraws;
    ASSERT_GT(mean, 20) << "too rare a token for this test";
    allowed.insert(token);
    const double difference = counts[static_cast<size_t>(token)] - mean;
    statistic += difference * difference / mean;
  }
  EXPECT_EQ(drawn, allowed);
  const double freedom = static_cast<double>(expected.size()) - 1;
  EXPECT_LT(statistic, freedom + 4 * std::sqrt(2 * freedom) + 4);
}

const std::vector<float> kLogits = {0.5f,  2.0f, -1.0f, 1.0f,       2.5f,  0.0f,
                                    -0.5f, 2.0f, 1.5f,  -kInfinity, 0.25f, 1.0f};

Sampling with(float temperature, int top_k, float top_p, float min_p) {
  Sampling sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  sampling.top_p = top_p;
  sampling.min_p = min_p;
  sampling.seed = 20261130;
  return sampling;
}

TEST(Sampler, DrawsFromTheSoftmax) {
  expect_distribution(with(1, 0, 1, 0), kLogits, 11);
}

TEST(Sampler, DrawsAtATemperature) {
  expect_distribution(with(0.7f, 0, 1, 0), kLogits, 11);
  expect_distribution(with(3, 0, 1, 0), kLogits, 11);
}

TEST(Sampler, TopKKeepsKTokensAndTheLowerIdOfATie) {
  expect_distribution(with(1, 4, 1, 0), kLogits, 4);
  expect_distribution(with(1, 2, 1, 0), kLogits, 2);  // 4, then 1 of the tied 1 and 7
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachIt) {
  expect_distribution(with(1, 0, 0.8f, 0), kLogits, 5);
  expect_distribution(with(1, 0, 0.3f, 0), kLogits, 2);
}

TEST(Sampler, MinPKeepsTokensNearlyAsProbableAsTheBest) {
  expect_distribution(with(1, 0, 1, 0.3f), kLogits, 4);
  expect_distribution(with(1, 0, 1, 1), kLogits, 1);
}

TEST(Sampler, TruncationsAreAppliedInOrder) {
  expect_distribution(with(1.2f, 6, 0.9f, 0.2f), kLogits, 5);
  expect_distribution(with(1, 3, 0.7f, 0), kLogits, 2);  // top-p of the renormalised three
}

// Logits from a coarse grid so that ties are common; all fields random.
struct Case {
  std::vector<float> logits;
  Sampling sampling;
  test::History history;
  std::vector<bool> allowed;
};

template <class T>
T one_of(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Case random_case(std::mt19937& random) {
  Case c;
  const size_t size = 1 + random() % (random() % 8 == 0 ? 6000 : 200);
  const bool coarse = random() % 2 == 0;
  for (size_t i = 0; i < size; ++i) {
    const float fine = static_cast<float>(random() % 1000000) * 1e-5f - 5;
    c.logits.push_back(random() % 16 == 0 ? -kInfinity : coarse ? std::round(fine) : fine);
  }
  c.logits[random() % size] = 1;
  c.sampling =
      with(one_of(random, {0.05f, 0.6f, 1.0f, 2.0f, 50.0f}), one_of(random, {-1, 0, 1, 5, 20, 300}),
           one_of(random, {0.0f, 0.1f, 0.8f, 0.95f, 1.0f, 1.0f}), one_of(random, {0.0f, 0.0f, 0.1f, 0.9f}));
  c.sampling.seed = random();
  c.sampling.presence_penalty = one_of(random, {0.0f, 1.5f, -1.0f});
  c.sampling.frequency_penalty = one_of(random, {0.0f, 0.5f, -0.25f});
  c.sampling.repetition_penalty = one_of(random, {1.0f, 1.25f, 0.5f});
  const auto token = [&] { return static_cast<int32_t>(random() % size); };
  for (unsigned i = random() % 20; i > 0; --i) c.history.prompt.push_back(token());
  for (unsigned i = random() % 20; i > 0; --i) c.history.generated.push_back(token());
  for (unsigned i = random() % 4; i > 0; --i)
    c.sampling.logit_bias.emplace_back(token(), one_of(random, {-100.0f, 2.5f}));
  if (random() % 2 == 0) {
    for (const float logit : c.logits) c.allowed.push_back(logit == 1 || random() % 3 != 0);
  }
  return c;
}

std::vector<uint32_t> bits(const std::vector<bool>& allowed) {
  std::vector<uint32_t> words((allowed.size() + 31) / 32);
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) words[i / 32] |= uint32_t{1} << (i % 32);
  }
  return words;
}

// The token that the draw must give by the distribution function, or -1 when the point is too near a border
// for float64 to decide.
int32_t token_at(const std::vector<test::Kept>& kept, long double point) {
  long double sum = 0;
  for (const auto& [token, probability] : kept) {
    sum += probability;
    if (std::abs(sum - point) < 1e-12L && token != kept.back().token) return -1;
    if (point < sum) return token;
  }
  return kept.back().token;
}

TEST(Sampler, EveryDrawIsTheOneThatTheDistributionFunctionGives) {
  std::mt19937 random(7);
  int decided = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const Case c = random_case(random);
    ASSERT_TRUE(validate(c.sampling, static_cast<int64_t>(c.logits.size())).ok());
    Sampler sampler(c.sampling, static_cast<int64_t>(c.logits.size()));
    sampler.add_prompt(c.history.prompt);
    for (const int32_t token : c.history.generated) sampler.add_generated(token);
    const auto mask = bits(c.allowed);
    const auto kept = test::reference_distribution(c.logits, c.sampling, c.history, c.allowed);
    for (uint32_t step = 0; step < 8; ++step) {
      Draw draw;
      draw.step = step;
      draw.sequence = random();
      draw.allowed = mask;
      const auto sampled = sampler.sample(c.logits, draw);
      ASSERT_TRUE(sampled.ok()) << sampled.error().message;
      const float point = random_uniform({c.sampling.seed, draw.sequence, step, 0, Purpose::kSampleToken});
      const int32_t expected = token_at(kept, point);
      if (expected < 0) continue;
      ++decided;
      ASSERT_EQ(sampled->token, expected);
    }
  }
  EXPECT_GT(decided, 23900);
}

TEST(Sampler, GreedyTakesTheLargestLogitAndTheLowestIdOfATie) {
  std::vector<float> logits(5000, 0);
  logits[4321] = logits[1234] = logits[1235] = 9;
  Sampler sampler(with(0, 0, 1, 0), 5000);
  for (uint32_t step = 0; step < 10; ++step) EXPECT_EQ(draw_token(sampler, logits, step), 1234);
}

TEST(Sampler, GreedyObeysBiasPenaltiesAndMask) {
  Sampling sampling = with(0, 0, 1, 0);
  sampling.logit_bias = {{0, -3.0f}};
  sampling.presence_penalty = 2;
  Sampler sampler(sampling, 4);
  const std::vector<float> logits = {4, 3, 2, 1.5f};
  EXPECT_EQ(draw_token(sampler, logits, 0), 1);
  sampler.add_generated(1);
  EXPECT_EQ(draw_token(sampler, logits, 1), 2);
  Draw draw;
  const uint32_t only_last = 0b1000;
  draw.allowed = {&only_last, 1};
  EXPECT_EQ(sampler.sample(logits, draw)->token, 3);
}

TEST(Sampler, ASeedRepeatsADrawWhateverCameBefore) {
  const Sampling sampling = with(1, 0, 0.95f, 0);
  Sampler straight(sampling, 12), shuffled(sampling, 12);
  std::vector<int32_t> tokens;
  for (uint32_t step = 0; step < 100; ++step) tokens.push_back(draw_token(straight, kLogits, step));
  for (uint32_t step = 100; step-- > 0;) {
    draw_token(shuffled, {3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2}, step, 5);
    EXPECT_EQ(draw_token(shuffled, kLogits, step), tokens[step]);
  }
}

TEST(Sampler, SeedsAndSequencesGiveDifferentAnswers) {
  Sampling other = with(1, 0, 1, 0);
  Sampler sampler(other, 12);
  other.seed += 1;
  Sampler reseeded(other, 12);
  int same_sequence = 0, same_seed = 0;
  for (uint32_t step = 0; step < 200; ++step) {
    const int32_t token = draw_token(sampler, kLogits, step);
    same_sequence += token == draw_token(sampler, kLogits, step, 1);
    same_seed += token == draw_token(reseeded, kLogits, step);
  }
  EXPECT_LT(same_sequence, 80);
  EXPECT_LT(same_seed, 80);
}

TEST(Sampler, ReportsTheModelsOwnLogprobsWhateverTheSampling) {
  Sampling sampling = with(0, 1, 0.5f, 0);
  sampling.logit_bias = {{2, 50.0f}};
  Sampler sampler(sampling, 4);
  // Probabilities 1/8, 4/8, 2/8, 1/8.
  const std::vector<float> logits = {3, 3 + std::log(4.0f), 3 + std::log(2.0f), 3};
  Draw draw;
  draw.top_logprobs = 3;
  const auto sampled = sampler.sample(logits, draw);
  ASSERT_TRUE(sampled.ok() && sampled->logprobs);
  EXPECT_EQ(sampled->token, 2);
  EXPECT_EQ(sampled->logprobs->chosen.token, 2);
  EXPECT_NEAR(sampled->logprobs->chosen.logprob, std::log(0.25), 1e-6);
  const auto& top = sampled->logprobs->top;
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_NEAR(top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_NEAR(top[2].logprob, std::log(0.125), 1e-6);
}

TEST(Sampler, LogprobsAreAbsentUnlessAskedForAndNeverMinusInfinity) {
  Sampler sampler(with(1, 0, 1, 0), 12);
  EXPECT_FALSE(sampler.sample(kLogits, {})->logprobs);
  Draw draw;
  draw.top_logprobs = 12;
  const auto sampled = sampler.sample(kLogits, draw);
  EXPECT_EQ(sampled->logprobs->top.size(), 11u);
  draw.top_logprobs = 0;
  EXPECT_TRUE(sampler.sample(kLogits, draw)->logprobs->top.empty());
}

TEST(Sampler, BrokenLogitsAreAnErrorOfTheModel) {
  for (const Sampling& sampling : {with(0, 0, 1, 0), with(1, 0, 1, 0), with(1, 2, 0.5f, 0)}) {
    Sampler sampler(sampling, 200);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      std::vector<float> logits(200, 1);
      logits[150] = bad;
      EXPECT_EQ(sampler.sample(logits, {}).error().code, Code::kInternal);
    }
    EXPECT_EQ(sampler.sample(std::vector<float>(200, -kInfinity), {}).error().code, Code::kInternal);
    Draw draw;
    const std::vector<uint32_t> none(7, 0);
    draw.allowed = none;
    EXPECT_EQ(sampler.sample(std::vector<float>(200, 0), draw).error().code, Code::kInvalidArgument);
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStillDraw) {
  const std::vector<float> logits = {-3e38f, 3e38f, -kInfinity, 3e38f};
  for (const float temperature : {1e-38f, 1.0f, 100.0f}) {
    Sampler sampler(with(temperature, 0, 1, 0), 4);
    for (uint32_t step = 0; step < 20; ++step) EXPECT_EQ(draw_token(sampler, logits, step) % 2, 1);
  }
}

}  // namespace
}  // namespace weir
