#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::test {
namespace {

// Known answers of Philox 4x32-10 from the Random123 distribution (kat_vectors). Counter words are block,
// step, position, purpose; the key is the seed.
TEST(Random, equals_the_published_vectors_of_philox) {
  const auto draw = [](uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    return random_words({seed, c0, c1, c2, static_cast<Purpose>(c3)});
  };
  EXPECT_EQ(draw(0, 0, 0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(draw(0xffffffffffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(draw(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, uniform_draws_lie_in_the_unit_interval_and_spread_evenly) {
  constexpr int kDraws = 100000, kBins = 10;
  std::array<int, kBins> bins{};
  for (uint32_t i = 0; i < kDraws; ++i) {
    const float u = random_uniform({.seed = 7, .step = i});
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++bins[static_cast<size_t>(u * kBins)];
  }
  // Chi-square with 9 degrees of freedom: 27.9 is passed by chance once in a thousand seeds.
  double chi_square = 0;
  for (const int count : bins)
    chi_square += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi_square, 27.9);
}

TEST(Random, every_part_of_the_key_matters) {
  const DrawKey base{.seed = 1, .block = 2, .step = 3, .position = 4, .purpose = Purpose::kCanvas};
  std::set<std::array<uint32_t, 4>> seen{random_words(base)};
  for (DrawKey key :
       {DrawKey{2, 2, 3, 4, Purpose::kCanvas}, DrawKey{1, 3, 3, 4, Purpose::kCanvas},
        DrawKey{1, 2, 4, 4, Purpose::kCanvas}, DrawKey{1, 2, 3, 5, Purpose::kCanvas},
        DrawKey{1, 2, 3, 4, Purpose::kRenoise}, DrawKey{1ull << 40, 2, 3, 4, Purpose::kCanvas}}) {
    EXPECT_TRUE(seen.insert(random_words(key)).second);
  }
}

}  // namespace
}  // namespace weir::test
