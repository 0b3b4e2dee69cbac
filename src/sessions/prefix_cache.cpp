#include "sessions/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace weir {

Result<PrefixCache::Match> PrefixCache::find(std::span<const int32_t> prompt) {
  // A canvas needs nothing of a prompt but its state; the first token of other answers needs the logits of
  // the prompt's last one.
  const int64_t most = static_cast<int64_t>(prompt.size()) - (generator_.is_diffusion() ? 0 : 1);
  const PrefixTree::Place place = tree_.find(prompt);
  Match match;
  match.common = place.common;
  int64_t position = std::min(place.common, most);
  for (PrefixNode* node = place.node; node->parent != nullptr; node = node->parent) {
    position = std::min(position, node->depth);
    PrefixNode* found = position > 0 ? resumable(*node, position) : nullptr;
    if (found == nullptr) continue;
    WEIR_TRY(match.held.state, generator_.copy(*found->state));
    match.held.tokens = tokens_of(*found);
    touch(*found);
    break;
  }
  return match;
}

// An entry at or below the node that can go on from `position`.
PrefixNode* PrefixCache::resumable(PrefixNode& node, int64_t position) const {
  if (node.state && generator_.can_resume(*node.state, position)) return &node;
  if (!generator_.is_diffusion()) return nullptr;  // recurrent states go on from their end alone
  for (const auto& [first, child] : node.children) {
    if (PrefixNode* found = resumable(*child, position)) return found;
  }
  return nullptr;
}

void PrefixCache::insert(HeldSequence held) {
  StateBytes own;
  own.add(held.state);
  if (held.tokens.empty() || own.total() > most_bytes_) return;
  PrefixNode& node = tree_.at(held.tokens);
  if (!node.state) {
    bytes_.add(held.state);
    node.state = std::move(held.state);
  }
  touch(node);
  while (bytes_.total() > most_bytes_) evict_oldest();
}

bool PrefixCache::contains(std::span<const int32_t> tokens) {
  const PrefixTree::Place place = tree_.find(tokens);
  return place.common == static_cast<int64_t>(tokens.size()) && place.node->depth == place.common &&
         place.node->state.has_value();
}

void PrefixCache::for_each(
    const std::function<void(std::span<const int32_t>, const SequenceState&)>& visit) const {
  for (const auto& [used, node] : by_use_) visit(tokens_of(*node), *node->state);
}

void PrefixCache::touch(PrefixNode& node) {
  mark_used(node);
  for (PrefixNode* above = node.parent; above != nullptr; above = above->parent) {
    if (!above->state || above->children.size() < 2) continue;
    mark_used(*above);
    break;
  }
}

void PrefixCache::mark_used(PrefixNode& node) {
  by_use_.erase(node.used);
  node.used = ++clock_;
  by_use_.emplace(node.used, &node);
}

void PrefixCache::evict_oldest() {
  PrefixNode& node = *by_use_.begin()->second;
  if (evicted_) evicted_(tokens_of(node), *node.state);
  by_use_.erase(by_use_.begin());
  bytes_.remove(*node.state);
  tree_.erase(node);
}

}  // namespace weir
