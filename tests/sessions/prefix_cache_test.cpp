#include "sessions/prefix_cache.h"

#include "sessions/pocket_sessions.h"

namespace weir::test {
namespace {

uint64_t bytes_of(const SequenceState& state) {
  StateBytes bytes;
  bytes.add(state);
  return bytes.total();
}

class Cache : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (!model_ || model_->kind != GetParam()) model_ = std::make_unique<PocketModel>(GetParam());
  }
  static Tokens numbers(size_t count, int32_t from) { return count_up(count, from); }
  bool is_qwen() const { return GetParam() == Kind::kQwen; }

  static inline std::unique_ptr<PocketModel> model_;
};

TEST_P(Cache, GivesTheDeepestSequenceThatAPromptCanGoOnFrom) {
  PrefixCache cache(*model_->generator, 1 << 30);
  const Tokens a = numbers(40, 100), b = joined(a, numbers(30, 300)), other = numbers(50, 500);
  for (const Tokens& tokens : {a, b, other}) cache.insert(read(*model_, tokens));
  EXPECT_EQ(cache.size(), 3);

  const auto longer = taken(cache.find(joined(b, {1, 2})));
  EXPECT_EQ(longer.held.tokens, b);
  EXPECT_EQ(longer.common, 70);
  const auto between = taken(cache.find(joined(first_tokens(b, 60), {1, 2})));
  EXPECT_EQ(between.common, 60);
  EXPECT_EQ(between.held.tokens, is_qwen() ? a : b) << "a recurrent state cannot be cut";
  const auto all_of_it = taken(cache.find(a));
  EXPECT_EQ(all_of_it.common, 40);
  EXPECT_EQ(all_of_it.held.tokens.empty(), is_qwen()) << "the last token's logits are wanted";
  const auto stranger = taken(cache.find({numbers(9, 700)}));
  EXPECT_EQ(stranger.common, 0);
  EXPECT_TRUE(stranger.held.tokens.empty());
}

TEST_P(Cache, CountsSharedPagesOnceAndFreesWhatIsEvicted) {
  const Tokens a = numbers(600, 100), b = joined(a, numbers(30, 20));
  HeldSequence first = read(*model_, a);
  HeldSequence again{taken(model_->generator->copy(first.state)), a};
  HeldSequence second = read(*model_, b, std::move(again));
  const uint64_t alone = bytes_of(first.state), both_alone = alone + bytes_of(second.state);
  uint64_t pages = 0;  // two full ones in each layer that keeps them all
  for (size_t i = 0; i < first.state.kv.size(); ++i) {
    for (size_t p = 0; p < 2; ++p) {
      if (second.state.kv[i].pages[p].data() == nullptr) continue;
      EXPECT_EQ(first.state.kv[i].pages[p].data(), second.state.kv[i].pages[p].data());
      pages += first.state.kv[i].pages[p].bytes();
    }
    EXPECT_NE(first.state.kv[i].pages[2].data(), second.state.kv[i].pages[2].data()) << "written by both";
  }
  std::vector<Tokens> gone;
  const uint64_t room = both_alone - pages;
  PrefixCache cache(*model_->generator, room);
  cache.on_eviction([&](std::span<const int32_t> tokens, const SequenceState&) {
    gone.emplace_back(tokens.begin(), tokens.end());
  });
  cache.insert(std::move(first));
  EXPECT_EQ(cache.bytes(), alone);
  cache.insert(std::move(second));
  EXPECT_EQ(cache.bytes(), room);
  EXPECT_TRUE(gone.empty());
  cache.insert(read(*model_, numbers(10, 900)));
  EXPECT_EQ(gone, (std::vector<Tokens>{a}));
  EXPECT_LE(cache.bytes(), room);
}

TEST_P(Cache, WhatSequencesHaveInCommonStaysLongerThanTheOldestOfThem) {
  const Tokens system = numbers(30, 100);
  const auto conversation = [&](int32_t n) { return joined(system, numbers(20, 200 + 30 * n)); };
  const uint64_t one = bytes_of(read(*model_, conversation(0)).state);
  PrefixCache cache(*model_->generator, 4 * one);
  cache.insert(read(*model_, system));
  cache.insert(read(*model_, conversation(0)));
  for (int32_t n = 1; n < 8; ++n) {
    cache.insert(read(*model_, conversation(n)));
    EXPECT_TRUE(cache.contains(system)) << n;
    EXPECT_TRUE(cache.contains(conversation(n)));
    EXPECT_LE(cache.bytes(), 4 * one);
  }
  EXPECT_FALSE(cache.contains(conversation(0)));
}

TEST_P(Cache, ASequenceLargerThanTheCacheIsNotKeptAndPushesNothingOut) {
  const Tokens small = numbers(20, 100), large = numbers(600, 100);
  HeldSequence held = read(*model_, small);
  PrefixCache cache(*model_->generator, bytes_of(held.state));
  cache.insert(std::move(held));
  cache.insert(read(*model_, large));
  EXPECT_TRUE(cache.contains(small));
  EXPECT_FALSE(cache.contains(large));
}

INSTANTIATE_TEST_SUITE_P(pocket, Cache, testing::Values(Kind::kQwen, Kind::kGemma),
                         [](const auto& kind) { return kind_name(kind.param); });

}  // namespace
}  // namespace weir::test
