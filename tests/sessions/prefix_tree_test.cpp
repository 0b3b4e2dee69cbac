#include "sessions/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace weir::test {
namespace {

using Tokens = std::vector<int32_t>;

size_t count_nodes(const PrefixNode& node) {
  size_t nodes = 1;
  for (const auto& [first, child] : node.children) nodes += count_nodes(*child);
  return nodes;
}

void expect_consistent(const PrefixNode& node, bool is_root) {
  if (!is_root) {
    EXPECT_TRUE(node.state || node.children.size() >= 2) << "a node that tells nothing apart";
  }
  for (const auto& [first, child] : node.children) {
    ASSERT_FALSE(child->edge.empty());
    EXPECT_EQ(child->edge.front(), first);
    EXPECT_EQ(child->parent, &node);
    EXPECT_EQ(child->depth, node.depth + static_cast<int64_t>(child->edge.size()));
    expect_consistent(*child, false);
  }
}

TEST(PrefixTree, HoldsWhatAPlainListHoldsWhateverComesAndGoes) {
  std::mt19937 rng(7);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(rng); };
  PrefixTree tree;
  std::set<Tokens> list;
  for (int round = 0; round < 3000; ++round) {
    Tokens tokens(static_cast<size_t>(below(8)) + 1);
    for (int32_t& token : tokens) token = below(3);
    int64_t common = 0;
    for (const Tokens& other : list) {
      const auto ends = std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end());
      common = std::max<int64_t>(common, ends.first - tokens.begin());
    }
    const PrefixTree::Place place = tree.find(tokens);
    ASSERT_EQ(place.common, common);
    ASSERT_GE(place.node->depth, common);
    const bool is_here = list.count(tokens) > 0;
    ASSERT_EQ(is_here, place.common == static_cast<int64_t>(tokens.size()) &&
                           place.node->depth == place.common && place.node->state.has_value());
    if (is_here && below(2) == 0) {
      tree.erase(*place.node);
      list.erase(tokens);
    } else if (list.size() < 40) {
      PrefixNode& node = tree.at(tokens);
      EXPECT_EQ(tokens_of(node), tokens);
      node.state.emplace();
      list.insert(tokens);
    }
    expect_consistent(tree.root(), true);
    ASSERT_LE(count_nodes(tree.root()), 2 * list.size() + 1);
  }
}

}  // namespace
}  // namespace weir::test
