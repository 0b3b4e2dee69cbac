// The bytes of a vocabulary's tokens as a tree, to be walked together with an automaton.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace weir::grammar {

// Of all tokens that are plain text: added tokens, such as <|im_end|>, stand for themselves and are not in
// it.
class TokenTrie {
 public:
  // A byte behind its parent's; parents come before their children, and a node's descendants right behind it.
  struct Node {
    int32_t token = -1;    // that ends here; -1: none
    int32_t end = 0;       // the first node that is no descendant
    uint16_t depth = 0;    // bytes before this one
    uint16_t longest = 0;  // bytes of the longest token that ends here or at a descendant
    uint8_t byte = 0;
  };

  // `tokenizer` must outlive it.
  explicit TokenTrie(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Another token with the same bytes; -1: none.
  int32_t twin(int32_t token) const { return twins_.empty() ? -1 : twins_[static_cast<size_t>(token)]; }
  int32_t deepest() const { return deepest_; }  // bytes of the longest token
  // Bytes of each token; 0 of those that are not in the tree.
  const std::vector<uint16_t>& lengths() const { return lengths_; }

 private:
  const Tokenizer* tokenizer_;
  std::vector<Node> nodes_;
  std::vector<int32_t> twins_;  // empty when there are none
  int32_t deepest_ = 0;
  std::vector<uint16_t> lengths_;
};

}  // namespace weir::grammar
