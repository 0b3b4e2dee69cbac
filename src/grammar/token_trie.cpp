#include "grammar/token_trie.h"

#include <algorithm>
#include <string_view>

namespace weir::grammar {

// Tokens in order of their bytes are the tree in the order of its nodes.
TokenTrie::TokenTrie(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), lengths_(static_cast<size_t>(tokenizer.vocab_size())) {
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_added(id) && !tokenizer.token_bytes(id).empty()) tokens.push_back(id);
  }
  std::sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
    const auto x = tokenizer.token_bytes(a), y = tokenizer.token_bytes(b);
    return x != y ? x < y : a < b;
  });
  std::vector<size_t> path;  // nodes of the token before
  std::string_view before;
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      Node& closed = nodes_[path.back()];
      closed.end = static_cast<int32_t>(nodes_.size());
      if (path.size() < 2) continue;
      Node& parent = nodes_[path[path.size() - 2]];
      parent.longest = std::max(parent.longest, closed.longest);
    }
  };
  for (const int32_t token : tokens) {
    const std::string_view bytes = tokenizer.token_bytes(token).substr(0, UINT16_MAX);
    lengths_[static_cast<size_t>(token)] = static_cast<uint16_t>(bytes.size());
    if (bytes == before) {
      if (twins_.empty()) twins_.assign(static_cast<size_t>(tokenizer.vocab_size()), -1);
      int32_t& first = nodes_[path.back()].token;
      twins_[static_cast<size_t>(token)] = first;
      first = token;
      continue;
    }
    const auto shared = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    close_to(static_cast<size_t>(shared.first - before.begin()));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(nodes_.size());
      nodes_.push_back({-1, 0, static_cast<uint16_t>(depth), 0, static_cast<uint8_t>(bytes[depth])});
    }
    nodes_.back().token = token;
    nodes_.back().longest = static_cast<uint16_t>(bytes.size());
    deepest_ = std::max(deepest_, static_cast<int32_t>(bytes.size()));
    before = bytes;
  }
  close_to(0);
}

}  // namespace weir::grammar
