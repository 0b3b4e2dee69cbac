// A radix tree of token sequences: sequences with a common beginning share a path, and a node stands where a
// sequence ends or where sequences part.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/state.h"

namespace weir {

struct PrefixNode {
  PrefixNode* parent = nullptr;
  std::vector<int32_t> edge;  // tokens from the parent to here; empty for the root alone
  int64_t depth = 0;          // tokens from the root to here
  std::map<int32_t, std::unique_ptr<PrefixNode>> children;  // by the first tokens of their edges

  std::optional<SequenceState> state;  // at position `depth`
  uint64_t used = 0;                   // when the state was asked for last; larger is later
};

class PrefixTree {
 public:
  // Where a sequence leaves the tree: it has `common` tokens in common with what is below `node`, whose depth
  // is at least that, while the depth of the node's parent is less.
  struct Place {
    PrefixNode* node = nullptr;
    int64_t common = 0;
  };

  PrefixNode& root() { return root_; }
  Place find(std::span<const int32_t> tokens);

  // The node where the sequence ends, made if there is none.
  PrefixNode& at(std::span<const int32_t> tokens);

  // Takes the node's state away, and what is no longer needed to tell the others apart.
  void erase(PrefixNode& node);

 private:
  PrefixNode& split(PrefixNode& node, int64_t depth);

  PrefixNode root_;
};

std::vector<int32_t> tokens_of(const PrefixNode& node);

}  // namespace weir
