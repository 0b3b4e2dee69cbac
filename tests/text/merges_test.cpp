#include "text/merges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace weir::text {
namespace {

// The definition: while any neighbours merge, merge those of the lowest rank, the leftmost of them.
std::vector<int32_t> merged_by_definition(const Merges& merges, std::vector<int32_t> word) {
  while (true) {
    const Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const Merge* merge = merges.find(word[i], word[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        at = i;
      }
    }
    if (best == nullptr) return word;
    word[at] = best->merged;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Merges, FindsWhatWasInserted) {
  Merges merges;
  EXPECT_EQ(merges.find(0, 0), nullptr);
  for (int32_t i = 0; i < 5000; ++i) merges.insert({i, i * 7 % 100, i + 1, static_cast<uint32_t>(i)});
  for (int32_t i = 0; i < 5000; ++i) {
    const Merge* merge = merges.find(i, i * 7 % 100);
    ASSERT_NE(merge, nullptr);
    EXPECT_EQ(merge->merged, i + 1);
    EXPECT_EQ(merges.find(i, i * 7 % 100 + 1), nullptr);
  }
  EXPECT_EQ(merges.find(-1, -1), nullptr);
}

TEST(Merges, TheLaterOfTwoMergesOfAPairHolds) {
  Merges merges;
  merges.insert({1, 2, 3, 0});
  merges.insert({1, 2, 4, 1});
  EXPECT_EQ(merges.find(1, 2)->merged, 4);
  EXPECT_EQ(merges.find(1, 2)->rank, 1u);
}

// Random merges over three letters: token k is a string, and each merge joins two of the strings so far.
TEST(WordMerger, MergesRandomWordsAsTheDefinitionSays) {
  std::mt19937 random(3);
  WordMerger merger;
  for (int round = 0; round < 100; ++round) {
    Merges merges;
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<Merge> in_order;
    for (int k = 0; k < 30; ++k) {
      const size_t left = random() % tokens.size();
      const size_t right = random() % tokens.size();
      const std::string joined = tokens[left] + tokens[right];
      if (joined.size() > 12 || std::find(tokens.begin(), tokens.end(), joined) != tokens.end()) continue;
      in_order.push_back(
          {static_cast<int32_t>(left), static_cast<int32_t>(right), static_cast<int32_t>(tokens.size()), 0});
      tokens.push_back(joined);
    }
    // Ranks in any order, so that a late merge can come before the ones it is built from.
    std::shuffle(in_order.begin(), in_order.end(), random);
    for (size_t rank = 0; rank < in_order.size(); ++rank) {
      in_order[rank].rank = static_cast<uint32_t>(rank);
      merges.insert(in_order[rank]);
    }
    for (int w = 0; w < 20; ++w) {
      std::vector<int32_t> word(random() % 60);
      for (int32_t& id : word) id = static_cast<int32_t>(random() % 3);
      const auto expected = merged_by_definition(merges, word);
      merger.merge(merges, word);
      EXPECT_EQ(word, expected);
    }
  }
}

}  // namespace
}  // namespace weir::text
