#include "grammar/token_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::grammar {
namespace {

constexpr size_t kMostMasks = 512;
constexpr int32_t kMostConfigurations = 1 << 14;

// Places in the configurations that one walk may lead to beyond its first byte. Where a grammar leads to
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

// Tokens that are too short to bring a count to its bound are those of the typical configuration, which many
// share; only longer ones are looked for again.
std::span<const uint32_t> TokenMatcher::allowed() {
  if (masked_ == current_) return mask_;
  const std::vector<uint16_t>& lengths = grammar_->vocabulary().lengths();
  const auto [typical, bytes] = configurations_.typical(current_);
  if (const Mask* shared = shared_mask(typical)) {
    mask_ = *shared;
    if (bytes < grammar_->vocabulary().deepest()) {
      for (size_t token = 0; token < lengths.size(); ++token) {
        if (lengths[token] > bytes) mask_[token / 32] &= ~(1u << (token % 32));
      }
      walk(current_, bytes + 1, mask_);
    }
  } else {
    mask_.assign((lengths.size() + 31) / 32, 0);
    walk(current_, 1, mask_);
  }
  for (size_t marker = 0; marker < grammar_->marker_tokens().size(); ++marker) {
    const auto symbol = static_cast<Symbol>(kFirstMarker + marker);
    if (configurations_.after(current_, symbol) != Configurations::kNone) {
      allow(mask_, grammar_->marker_tokens()[marker]);
    }
  }
  if (complete()) {
    for (const int32_t token : end_tokens_) allow(mask_, token);
  }
  masked_ = current_;
  return mask_;
}

// Null where something was left out on the way: what is depends on the order in which places were met, so it
// may be something else behind another configuration.
const TokenMatcher::Mask* TokenMatcher::shared_mask(int32_t typical) {
  auto known = masks_.find(typical);
  if (known == masks_.end()) {
    if (masks_.size() >= kMostMasks) masks_.clear();
    Mask mask((grammar_->vocabulary().lengths().size() + 31) / 32);
    if (!walk(typical, 1, mask) && typical != current_) return nullptr;
    known = masks_.emplace(typical, std::move(mask)).first;
  }
  return &known->second;
}

// Adds the tokens of at least that many bytes, by a walk of the tree. Configurations count once, when they
// are first met: what is left out does not depend on what earlier walks have met. Returns whether nothing
// was.
bool TokenMatcher::walk(int32_t configuration, int64_t least, Mask& mask) {
  const TokenTrie& vocabulary = grammar_->vocabulary();
  const auto& nodes = vocabulary.nodes();
  std::vector<int32_t> path(static_cast<size_t>(vocabulary.deepest()) + 1, configuration);  // by bytes read
  std::vector<bool> met;
  size_t places = 0;
  bool whole = true;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const size_t depth = node.depth;
    const int32_t next =
        node.longest < least ? Configurations::kNone : configurations_.after(path[depth], node.byte);
    bool follow = next != Configurations::kNone;
    if (follow) {
      if (static_cast<size_t>(next) >= met.size()) met.resize(static_cast<size_t>(configurations_.size()));
      if (!met[static_cast<size_t>(next)]) {
        const size_t more = configurations_.places(next);
        whole = whole && more < kMostPlaces;
        if (depth > 0 && places > kMostPlacesOfMask) {
          follow = whole = false;
        } else if (depth > 0) {
          met[static_cast<size_t>(next)] = true;
          places += more;
        }
      }
    }
    if (!follow) {
      i = static_cast<size_t>(node.end);
      continue;
    }
    if (static_cast<int64_t>(depth) + 1 >= least) {
      for (int32_t token = node.token; token >= 0; token = vocabulary.twin(token)) allow(mask, token);
    }
    path[depth + 1] = next;
    ++i;
  }
  return whole;
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
    masked_ = Configurations::kNone;
  }
  return true;
}

}  // namespace weir::grammar
