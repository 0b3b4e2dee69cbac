// What the tests of the grammar folder share: the tokens of a pocket model, and texts that grammars take.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/configurations.h"
#include "grammar/schema.h"
#include "grammar/token_matcher.h"

namespace weir::grammar {

inline constexpr int32_t kPocketEnd = 1357;  // <|im_end|>

inline std::shared_ptr<const TokenTrie> pocket_vocabulary() {
  static const auto tokenizer = Tokenizer::load("models/pocket-qwen/tokenizer.json");
  static const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  return trie;
}

// Whether the whole text, in bytes, is one of the grammar.
inline bool takes(const Grammar& grammar, std::string_view text) {
  Configurations configurations(grammar);
  int32_t at = configurations.start();
  for (const char c : text) {
    at = configurations.after(at, static_cast<unsigned char>(c));
    if (at == Configurations::kNone) return false;
  }
  return configurations.complete(at);
}

inline std::vector<int32_t> tokens_of(std::span<const uint32_t> mask) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < mask.size() * 32; ++i) {
    if ((mask[i / 32] >> (i % 32)) & 1u) tokens.push_back(static_cast<int32_t>(i));
  }
  return tokens;
}

struct Walk {
  std::string text;
  bool complete = false;
};

// An answer of tokens drawn with equal chances from those allowed, but for ends and markers, which are
// likelier.
inline Walk random_walk(std::shared_ptr<const TokenGrammar> grammar, std::mt19937_64& random,
                        int most_tokens) {
  TokenMatcher matcher(std::move(grammar), {kPocketEnd});
  Walk walk;
  for (int i = 0; i < most_tokens; ++i) {
    const auto tokens = tokens_of(matcher.allowed());
    if (tokens.empty()) break;
    const bool may_end = matcher.complete();
    if (may_end && (tokens.size() == 1 || random() % 4 == 0)) {
      walk.complete = true;
      break;
    }
    int32_t token = kPocketEnd;
    while (token == kPocketEnd) token = tokens[random() % tokens.size()];
    for (const int32_t other : tokens) {
      const bool marker = other != kPocketEnd && pocket_vocabulary()->tokenizer().is_added(other);
      if (marker && random() % 16 == 0) token = other;
    }
    if (!matcher.accept(token)) break;
    walk.text += pocket_vocabulary()->tokenizer().token_bytes(token);
  }
  return walk;
}

}  // namespace weir::grammar
