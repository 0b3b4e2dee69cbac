// One canvas step by step, on made-up beliefs: the reference's rules restated, and what each departure
// changes.
#include "generate/canvas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace weir {
namespace {

constexpr int64_t kLength = 12;
constexpr int64_t kVocabulary = 50;
constexpr int32_t kEnd = 1;

using Tokens = std::vector<int32_t>;

Canvas make_canvas(const Denoising& denoising, uint64_t seed = 1) {
  return {denoising, kLength, {kEnd}, std::make_unique<CanvasDraws>(seed, 0, kVocabulary)};
}

Belief belief(int32_t best, float entropy, float probability = 0.9f) {
  return {.best = best,
          .second = 0,
          .sampled = best + 1,
          .best_probability = probability,
          .second_probability = 0,
          .entropy = entropy};
}

Tokens to_tokens(std::span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

std::vector<Belief> same_beliefs(const Canvas& canvas, float entropy, float probability = 0.9f) {
  std::vector<Belief> out;
  for (const int32_t slot : canvas.asked()) out.push_back(belief(slot + 10, entropy, probability));
  return out;
}

std::vector<Belief> random_beliefs(const Canvas& canvas, std::mt19937& random) {
  std::uniform_real_distribution<float> entropy(0, 0.08f);
  std::vector<Belief> out;
  for (size_t i = 0; i < canvas.asked().size(); ++i) {
    out.push_back(belief(static_cast<int32_t>(10 + random() % 3), entropy(random)));
  }
  return out;
}

// Section by section what the reference's sampler does with one step's beliefs.
struct Reference {
  Tokens canvas, previous_best = Tokens(kLength, -1);
  std::vector<uint8_t> accepted;
  bool done = false;

  void step(const std::vector<Belief>& beliefs, const CanvasDraws& draws, int64_t step, const Denoising& d) {
    std::vector<size_t> order(kLength);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return beliefs[a].entropy < beliefs[b].entropy; });
    accepted.assign(kLength, 0);
    double before = 0;
    for (const size_t i : order) {
      accepted[i] = before <= 0.1 ? 1 : 0;
      before += static_cast<double>(beliefs[i].entropy);
    }
    Tokens best;
    double sum = 0;
    canvas.clear();
    for (size_t i = 0; i < kLength; ++i) {
      canvas.push_back(accepted[i] != 0 ? beliefs[i].sampled : draws.renoise(step, static_cast<int64_t>(i)));
      best.push_back(beliefs[i].best);
      sum += static_cast<double>(beliefs[i].entropy);
    }
    done = (best == previous_best && sum / kLength < 0.005) || step + 1 == d.steps;
    previous_best = best;
  }
};

TEST(Canvas, follows_the_reference_with_everything_off) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Denoising denoising;
    denoising.steps = 9;
    Canvas canvas = make_canvas(denoising, seed);
    const CanvasDraws draws(seed, 0, kVocabulary);
    Reference reference;
    std::mt19937 random(static_cast<unsigned>(seed));
    while (!canvas.done()) {
      ASSERT_EQ(canvas.slots().size(), static_cast<size_t>(kLength));
      ASSERT_EQ(canvas.asked().size(), static_cast<size_t>(kLength));
      const int64_t step = canvas.passes();
      EXPECT_FLOAT_EQ(canvas.temperature(), 0.4f + 0.4f * static_cast<float>(9 - step) / 9.0f);
      const auto beliefs = random_beliefs(canvas, random);
      canvas.absorb(beliefs);
      reference.step(beliefs, draws, step, denoising);
      EXPECT_EQ(to_tokens(canvas.frame().tokens), reference.canvas);
      EXPECT_EQ(to_tokens(canvas.best()), reference.previous_best);
      const CanvasFrame frame = canvas.frame();
      EXPECT_EQ(std::vector<uint8_t>(frame.accepted.begin(), frame.accepted.end()), reference.accepted);
      EXPECT_EQ(canvas.done(), reference.done);
    }
  }
}

TEST(Canvas, stops_when_it_is_stable_and_certain_and_not_before_the_second_step) {
  Canvas canvas = make_canvas({});
  canvas.absorb(same_beliefs(canvas, 0.001f));
  EXPECT_FALSE(canvas.done());
  canvas.absorb(same_beliefs(canvas, 0.006f));  // stable, too uncertain
  EXPECT_FALSE(canvas.done());
  canvas.absorb(same_beliefs(canvas, 0.004f));
  EXPECT_TRUE(canvas.done());
  EXPECT_EQ(canvas.passes(), 3);
}

TEST(Canvas, frozen_positions_keep_their_token_and_are_not_asked_again) {
  Denoising denoising;
  denoising.freezing = Freezing{2};
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
  beliefs[3].entropy = beliefs[7].entropy = 0.01f;
  canvas.absorb(beliefs);
  EXPECT_EQ(canvas.asked().size(), 12u);
  beliefs[7].best = 30;  // accepted again, with another best token
  canvas.absorb(beliefs);
  // The two surest and, within the bound, the first of the others were kept twice, but 7 with two best
  // tokens.
  EXPECT_EQ(canvas.asked().size(), 10u);
  EXPECT_TRUE(std::binary_search(canvas.asked().begin(), canvas.asked().end(), 7));
  EXPECT_EQ(canvas.slots().size(), 12u) << "without compaction all positions are forwarded";
  const int32_t kept = canvas.token(3);
  EXPECT_EQ(kept, 14);
  for (int i = 0; i < 5; ++i) {
    canvas.absorb(same_beliefs(canvas, 1.0f));
    EXPECT_EQ(canvas.token(3), kept);
    EXPECT_EQ(canvas.best()[3], kept);
    EXPECT_FALSE(std::binary_search(canvas.asked().begin(), canvas.asked().end(), 3));
  }
}

TEST(Canvas, a_compacted_pass_forwards_live_positions_and_those_frozen_last) {
  Denoising denoising;
  denoising.freezing = Freezing{};
  denoising.compaction = Compaction{};
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
  for (const size_t i : {0, 4, 5}) beliefs[i].entropy = 0.01f;
  beliefs[8].entropy = 0.03f;
  canvas.absorb(beliefs);  // freezes 0, 4, 5, 8 and the first of the others
  EXPECT_EQ(canvas.slots().size(), 12u);
  EXPECT_EQ(canvas.asked().size(), 7u);
  canvas.absorb(same_beliefs(canvas, 1.0f));  // freezes one
  EXPECT_EQ(canvas.slots().size(), 7u);
  EXPECT_EQ(canvas.asked().size(), 6u);
}

TEST(Canvas, buckets_are_filled_with_the_stalest_positions) {
  Denoising denoising;
  denoising.freezing = Freezing{};
  denoising.compaction = Compaction{.refresh_share = 0, .thaw = false, .bucket = 8};
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
  for (const size_t i : {0, 4, 5, 6}) beliefs[i].entropy = 0.01f;
  canvas.absorb(beliefs);
  while (!canvas.done()) {
    canvas.absorb(same_beliefs(canvas, 1.0f));
    if (canvas.done()) break;
    EXPECT_TRUE(canvas.slots().size() % 8 == 0 || canvas.slots().size() == 12u);
    EXPECT_TRUE(std::includes(canvas.slots().begin(), canvas.slots().end(), canvas.asked().begin(),
                              canvas.asked().end()));
  }
}

TEST(Canvas, refreshed_positions_thaw_when_another_token_has_become_better) {
  Denoising denoising;
  denoising.freezing = Freezing{};
  denoising.greedy_accept = true;
  denoising.compaction = Compaction{.refresh_share = 0.25f, .thaw = true, .bucket = 1};
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
  for (const size_t i : {0, 4, 5}) beliefs[i].entropy = 0.01f;
  canvas.absorb(beliefs);  // 4 of 12 have changed: the next pass is full and asks about all
  EXPECT_EQ(canvas.slots().size(), 12u);
  EXPECT_EQ(canvas.asked().size(), 12u);
  beliefs = same_beliefs(canvas, 1.0f);
  beliefs[4].best = 40;
  canvas.absorb(beliefs);
  EXPECT_TRUE(std::binary_search(canvas.asked().begin(), canvas.asked().end(), 4));
  EXPECT_FALSE(std::binary_search(canvas.asked().begin(), canvas.asked().end(), 0));
}

TEST(Canvas, a_step_cap_ends_denoising_at_the_temperatures_of_the_whole_schedule) {
  Denoising denoising;
  denoising.cap = StepCap{4, false};
  Canvas canvas = make_canvas(denoising);
  float last = 0;
  while (!canvas.done()) {
    last = canvas.temperature();
    canvas.absorb(same_beliefs(canvas, 1.0f));
  }
  EXPECT_EQ(canvas.passes(), 4);
  EXPECT_FLOAT_EQ(last, 0.4f + 0.4f * 45 / 48);
}

TEST(Canvas, a_flush_and_a_repair_read_the_whole_text_once_more) {
  for (const bool flush : {false, true}) {
    Denoising denoising;
    denoising.cap = StepCap{4, flush};
    denoising.repair = !flush;
    Canvas canvas = make_canvas(denoising);
    const int64_t before_last = flush ? 3 : 4;
    while (canvas.passes() < before_last) canvas.absorb(same_beliefs(canvas, 1.0f));
    ASSERT_FALSE(canvas.done());
    for (int32_t slot = 0; slot < kLength; ++slot) EXPECT_EQ(canvas.token(slot), slot + 10);
    std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
    beliefs[2].best = 44;
    canvas.absorb(beliefs);
    EXPECT_TRUE(canvas.done());
    EXPECT_EQ(canvas.best()[2], 44);
    EXPECT_EQ(canvas.best()[3], 13);
  }
}

TEST(Canvas, the_answer_alone_counts_for_the_stop_rules_when_asked) {
  for (const bool answer_only : {false, true}) {
    Denoising denoising;
    denoising.answer_stop = answer_only;
    Canvas canvas = make_canvas(denoising);
    for (int step = 0; step < 2; ++step) {
      std::vector<Belief> beliefs = same_beliefs(canvas, 0.0f);
      beliefs[5].best = kEnd;
      for (size_t i = 6; i < beliefs.size(); ++i) beliefs[i] = belief(step, 1.0f);
      canvas.absorb(beliefs);
    }
    EXPECT_EQ(canvas.answer_length(), 6);
    EXPECT_EQ(canvas.done(), answer_only);
  }
}

TEST(Canvas, a_clear_lead_everywhere_ends_denoising_at_once) {
  Denoising denoising;
  denoising.gap_stop = GapStop{0.8f};
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 0.5f);
  beliefs[1].second_probability = 0.2f;
  canvas.absorb(beliefs);
  EXPECT_FALSE(canvas.done());
  canvas.absorb(same_beliefs(canvas, 0.5f));
  EXPECT_TRUE(canvas.done());
}

TEST(Canvas, what_follows_a_frozen_end_is_dropped) {
  Denoising denoising;
  denoising.freezing = Freezing{};
  denoising.greedy_accept = true;
  denoising.tail_drop = true;
  Canvas canvas = make_canvas(denoising);
  std::vector<Belief> beliefs = same_beliefs(canvas, 1.0f);
  beliefs[5] = belief(kEnd, 0.0f);
  canvas.absorb(beliefs);
  for (const int32_t slot : canvas.asked()) EXPECT_LT(slot, 5);
}

TEST(Canvas, settled_positions_are_frozen_and_the_others_go_on) {
  Canvas canvas = make_canvas({});
  while (!canvas.done()) canvas.absorb(same_beliefs(canvas, 0.0f));
  canvas.settle(4, 33);
  ASSERT_FALSE(canvas.done());
  EXPECT_EQ(canvas.token(4), 33);
  EXPECT_EQ(canvas.asked().front(), 5);
  EXPECT_EQ(canvas.slots().size(), 12u);
  while (!canvas.done()) {
    std::vector<Belief> beliefs;
    for (const int32_t slot : canvas.asked()) beliefs.push_back(belief(slot + 20, 0.0f));
    canvas.absorb(beliefs);
  }
  EXPECT_EQ(canvas.best()[3], 13);
  EXPECT_EQ(canvas.best()[4], 33);
  EXPECT_EQ(canvas.best()[5], 25);
  canvas.settle(kLength - 1, 7);
  EXPECT_TRUE(canvas.done()) << "nothing is left to denoise";
  EXPECT_EQ(canvas.best()[kLength - 1], 7);
}

TEST(Canvas, settled_positions_are_never_thawed_so_checks_come_to_an_end) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    Denoising denoising;
    denoising.steps = 6;
    denoising.freezing = Freezing{};
    denoising.repair = random() % 2 == 0;
    denoising.compaction = Compaction{.refresh_share = 0.1f, .thaw = true, .bucket = 1};
    Canvas canvas = make_canvas(denoising, static_cast<uint64_t>(trial));
    Tokens settled;
    while (static_cast<int64_t>(settled.size()) < kLength) {
      std::vector<Belief> beliefs;
      for (size_t i = 0; i < canvas.asked().size(); ++i) {
        beliefs.push_back(belief(static_cast<int32_t>(random() % 6), 0.05f));
      }
      canvas.absorb(beliefs);
      for (size_t i = 0; i < settled.size(); ++i) ASSERT_EQ(canvas.best()[i], settled[i]);
      if (!canvas.done()) continue;
      // A checker that never agrees with the first position that is left.
      settled.push_back(static_cast<int32_t>(20 + settled.size()));
      canvas.settle(static_cast<int64_t>(settled.size()) - 1, settled.back());
    }
    EXPECT_TRUE(canvas.done());
    EXPECT_EQ(to_tokens(canvas.best()), settled);
  }
}

TEST(Canvas, every_combination_of_departures_ends_within_its_passes) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    Denoising d;
    const auto coin = [&] { return random() % 2 == 0; };
    d.steps = 2 + static_cast<int64_t>(random() % 12);
    if (coin()) d.acceptance = ConfidenceThreshold{0.95f, 0.5f, static_cast<int64_t>(random() % 4)};
    if (coin()) d.freezing = Freezing{1 + static_cast<int64_t>(random() % 3)};
    if (d.freezing && coin()) {
      d.compaction = Compaction{coin() ? 0.3f : 0.0f, coin(), 1 + static_cast<int64_t>(random() % 5)};
    }
    if (coin()) d.cap = StepCap{2 + static_cast<int64_t>(random() % 8), coin()};
    if (coin()) d.gap_stop = GapStop{0.95f};
    d.greedy_accept = coin();
    d.answer_stop = coin();
    d.tail_drop = coin();
    d.repair = coin();
    ASSERT_TRUE(validate(d).ok());
    Canvas canvas = make_canvas(d, static_cast<uint64_t>(trial));
    std::uniform_real_distribution<float> unit(0, 1);
    while (!canvas.done()) {
      ASSERT_FALSE(canvas.slots().empty());
      ASSERT_TRUE(std::includes(canvas.slots().begin(), canvas.slots().end(), canvas.asked().begin(),
                                canvas.asked().end()));
      std::vector<Belief> beliefs;
      for (size_t i = 0; i < canvas.asked().size(); ++i) {
        beliefs.push_back(belief(static_cast<int32_t>(random() % 6), unit(random), unit(random)));
      }
      canvas.absorb(beliefs);
      ASSERT_LE(canvas.passes(), d.steps + 1);
    }
  }
}

}  // namespace
}  // namespace weir
