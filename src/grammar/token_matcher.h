// Which tokens may follow, so that an answer is a text of a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/configurations.h"
#include "grammar/token_trie.h"

namespace weir::grammar {

// A grammar in the tokens of a vocabulary. Immutable; answers share it.
class TokenGrammar {
 public:
  // The tokenizer of `vocabulary` must outlive it. Error: kUnsupported when the tokenizer has no token for a
  // marker of the grammar.
  static Result<std::shared_ptr<const TokenGrammar>> make(Grammar grammar,
                                                          std::shared_ptr<const TokenTrie> vocabulary);

  const Grammar& grammar() const { return grammar_; }
  const TokenTrie& vocabulary() const { return *vocabulary_; }
  const std::vector<int32_t>& marker_tokens() const { return marker_tokens_; }

 private:
  TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::vector<int32_t> marker_tokens_;
};

// Follows one answer.
class TokenMatcher {
 public:
  // `end_tokens` may follow where the text may end.
  TokenMatcher(std::shared_ptr<const TokenGrammar> grammar, std::vector<int32_t> end_tokens);

  // Bit token % 32 of word token / 32, for all tokens of the tokenizer: the token may follow. At least one
  // may. Valid until the next call.
  std::span<const uint32_t> allowed();

  // False, and no change, when the token may not follow.
  bool accept(int32_t token);

  // The text so far is one of the grammar.
  bool complete() const { return configurations_.complete(current_); }

 private:
  using Mask = std::vector<uint32_t>;

  const Mask* shared_mask(int32_t typical);
  bool walk(int32_t configuration, int64_t least, Mask& mask);
  int32_t after(int32_t configuration, int32_t token);
  void allow(Mask& mask, int32_t token) const;

  std::shared_ptr<const TokenGrammar> grammar_;
  std::vector<int32_t> end_tokens_;
  Configurations configurations_;
  int32_t current_;
  std::unordered_map<int32_t, Mask> masks_;  // by typical configuration: tokens of the tree
  Mask mask_;
  int32_t masked_ = Configurations::kNone;  // the configuration that mask_ is about
};

}  // namespace weir::grammar
