#include "generate/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace weir {
namespace {

std::vector<Candidate> full_sort(const std::vector<float>& logits) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) all.push_back({logits[i], static_cast<int32_t>(i)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return all;
}

void expect_head(std::span<const Candidate> found, const std::vector<Candidate>& sorted, size_t count) {
  ASSERT_EQ(found.size(), count);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(found[i].token, sorted[i].token) << "place " << i;
    ASSERT_EQ(found[i].logit, sorted[i].logit) << "place " << i;
  }
}

void expect_every_head(TopK& top_k, const std::vector<float>& logits) {
  const auto sorted = full_sort(logits);
  top_k.scan(logits);
  ASSERT_EQ(top_k.largest(), sorted.front().logit);
  const auto size = static_cast<int64_t>(logits.size());
  for (const int64_t k :
       {int64_t{1}, int64_t{2}, int64_t{7}, size / 64, size / 3, size - 1, size, size + 5}) {
    if (k < 1) continue;
    expect_head(top_k.select(k), sorted, static_cast<size_t>(std::min(k, size)));
  }
}

TEST(TopK, EqualsTheFullSortWhateverTheSizeAndTheTies) {
  std::mt19937 random(1);
  TopK top_k;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const size_t size = 1 + random() % 3000;
    // From two distinct values to nearly none equal.
    const int values = 1 << (1 + round % 20);
    std::vector<float> logits(size);
    for (float& logit : logits) {
      logit =
          static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(values)) - values / 2) * 0.25f;
    }
    expect_every_head(top_k, logits);
    if (HasFatalFailure()) return;
  }
}

TEST(TopK, EqualsTheFullSortOnAVocabularyOfFullSize) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(248320);
  for (float& logit : logits) logit = normal(random);
  TopK top_k;
  expect_every_head(top_k, logits);
}

TEST(TopK, TakesTheLowestIdsWhenAllLogitsAreEqual) {
  TopK top_k;
  const std::vector<float> logits(1000, -3.5f);
  expect_every_head(top_k, logits);
  top_k.scan(logits);
  EXPECT_EQ(top_k.select(3)[2].token, 2);
}

TEST(TopK, PutsMinusInfinityLast) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(500, kNever);
  logits[499] = -1e30f;
  logits[130] = -2e30f;
  TopK top_k;
  expect_every_head(top_k, logits);
  expect_every_head(top_k, std::vector<float>(70, kNever));
}

TEST(TopK, FindsAllLogitsAtOrAboveAThreshold) {
  std::mt19937 random(3);
  std::vector<float> logits(777);
  for (float& logit : logits) logit = static_cast<float>(random() % 50);
  const auto sorted = full_sort(logits);
  TopK top_k;
  top_k.scan(logits);
  for (const float threshold : {-1.0f, 0.0f, 17.0f, 30.5f, 49.0f, 50.0f}) {
    const auto count = static_cast<size_t>(
        std::count_if(logits.begin(), logits.end(), [&](float logit) { return logit >= threshold; }));
    expect_head(top_k.at_least(threshold), sorted, count);
  }
}

}  // namespace
}  // namespace weir
