#include "grammar/token_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::grammar {
namespace {

constexpr size_t kMostMasks = 512;
constexpr int32_t kMostConfigurations = 1 << 14;

// Places in the configurations that one mask may lead to beyond its first byte. Where a grammar leads to
// more, as can only be meant to, longer tokens are left out.
constexpr size_t kMostPlacesOfMask = 1 << 15;

}  // namespace

Result<std::shared_ptr<const TokenGrammar>> TokenGrammar::make(Grammar grammar,
                                                               std::shared_ptr<const TokenTrie> vocabulary) {
  std::shared_ptr<TokenGrammar> made(new TokenGrammar(std::move(grammar), std::move(vocabulary)));
  for (const std::string& marker : made->grammar_.markers) {
    const auto token = made->vocabulary().tokenizer().find(marker);
    if (!token) {
      return Error{Code::kUnsupported, "the tokenizer has no token " + marker,
                   "use the model's own tokenizer"};
    }
    made->marker_tokens_.push_back(*token);
  }
  return std::shared_ptr<const TokenGrammar>(std::move(made));
}

TokenMatcher::TokenMatcher(std::shared_ptr<const TokenGrammar> grammar, std::vector<int32_t> end_tokens)
    : grammar_(std::move(grammar)),
      end_tokens_(std::move(end_tokens)),
      configurations_(grammar_->grammar()),
      current_(configurations_.start()) {}

std::span<const uint32_t> TokenMatcher::allowed() {
  auto found = masks_.find(current_);
  if (found == masks_.end()) {
    if (masks_.size() >= kMostMasks) masks_.clear();
    found = masks_.emplace(current_, make_mask()).first;
  }
  return found->second;
}

// Walks the tree of tokens. Configurations count once, when they are first met: what is left out does not
// depend on what earlier masks have met.
TokenMatcher::Mask TokenMatcher::make_mask() {
  const TokenTrie& vocabulary = grammar_->vocabulary();
  const auto& nodes = vocabulary.nodes();
  Mask mask((static_cast<size_t>(vocabulary.tokenizer().vocab_size()) + 31) / 32);
  std::vector<int32_t> path(static_cast<size_t>(vocabulary.deepest()) + 1, current_);  // by bytes read
  std::vector<bool> met;
  size_t places = 0;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const size_t depth = node.depth;
    const int32_t next = configurations_.after(path[depth], node.byte);
    bool follow = next != Configurations::kNone;
    if (follow && depth > 0) {
      if (static_cast<size_t>(next) >= met.size()) met.resize(static_cast<size_t>(configurations_.size()));
      if (!met[static_cast<size_t>(next)]) {
        if (places > kMostPlacesOfMask)
          follow = false;
        else {
          met[static_cast<size_t>(next)] = true;
          places += configurations_.places(next);
        }
      }
    }
    if (!follow) {
      i = static_cast<size_t>(node.end);
      continue;
    }
    for (int32_t token = node.token; token >= 0; token = vocabulary.twin(token)) allow(mask, token);
    path[depth + 1] = next;
    ++i;
  }
  for (size_t marker = 0; marker < grammar_->marker_tokens().size(); ++marker) {
    const auto symbol = static_cast<Symbol>(kFirstMarker + marker);
    if (configurations_.after(current_, symbol) != Configurations::kNone) {
      allow(mask, grammar_->marker_tokens()[marker]);
    }
  }
  if (complete()) {
    for (const int32_t token : end_tokens_) allow(mask, token);
  }
  return mask;
}

void TokenMatcher::allow(Mask& mask, int32_t token) const {
  const auto word = static_cast<size_t>(token) / 32;
  if (token >= 0 && word < mask.size()) mask[word] |= 1u << (token % 32);
}

int32_t TokenMatcher::after(int32_t configuration, int32_t token) {
  const auto& markers = grammar_->marker_tokens();
  const auto marker = std::find(markers.begin(), markers.end(), token);
  if (marker != markers.end()) {
    return configurations_.after(configuration,
                                 static_cast<Symbol>(kFirstMarker + (marker - markers.begin())));
  }
  const Tokenizer& tokenizer = grammar_->vocabulary().tokenizer();
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (tokenizer.is_added(token) || bytes.empty()) return Configurations::kNone;
  for (const char c : bytes) {
    configuration = configurations_.after(configuration, static_cast<unsigned char>(c));
    if (configuration == Configurations::kNone) break;
  }
  return configuration;
}

bool TokenMatcher::accept(int32_t token) {
  const int32_t next = after(current_, token);
  if (next == Configurations::kNone) return false;
  current_ = next;
  if (configurations_.size() > kMostConfigurations) {
    current_ = configurations_.keep_only(current_);
    masks_.clear();
  }
  return true;
}

}  // namespace weir::grammar
