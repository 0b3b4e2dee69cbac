#include "sessions/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

// A child of `parent` whose edge is `edge`.
PrefixNode& add_child(PrefixNode& parent, std::vector<int32_t> edge) {
  auto child = std::make_unique<PrefixNode>();
  child->parent = &parent;
  child->depth = parent.depth + static_cast<int64_t>(edge.size());
  child->edge = std::move(edge);
  const int32_t first = child->edge.front();
  return *(parent.children[first] = std::move(child));
}

// An only child takes the place of a node that stands for nothing.
void merge_with_child(PrefixNode& node) {
  std::unique_ptr<PrefixNode> child = std::move(node.children.begin()->second);
  std::vector<int32_t> edge = node.edge;
  edge.insert(edge.end(), child->edge.begin(), child->edge.end());
  child->edge = std::move(edge);
  child->parent = node.parent;
  std::unique_ptr<PrefixNode>& slot = node.parent->children[child->edge.front()];
  slot = std::move(child);  // frees the node
}

}  // namespace

PrefixTree::Place PrefixTree::find(std::span<const int32_t> tokens) {
  PrefixNode* node = &root_;
  int64_t common = 0;
  while (common < static_cast<int64_t>(tokens.size())) {
    const auto rest = tokens.subspan(static_cast<size_t>(common));
    const auto next = node->children.find(rest.front());
    if (next == node->children.end()) break;
    node = next->second.get();
    common += common_length(rest, node->edge);
    if (common < node->depth) break;
  }
  return {node, common};
}

PrefixNode& PrefixTree::at(std::span<const int32_t> tokens) {
  const Place place = find(tokens);
  PrefixNode& node = place.common < place.node->depth ? split(*place.node, place.common) : *place.node;
  if (place.common == static_cast<int64_t>(tokens.size())) return node;
  const auto rest = tokens.subspan(static_cast<size_t>(place.common));
  return add_child(node, {rest.begin(), rest.end()});
}

// A new node at `depth` on the edge that leads to `node`.
PrefixNode& PrefixTree::split(PrefixNode& node, int64_t depth) {
  PrefixNode& parent = *node.parent;
  const auto upper = static_cast<std::ptrdiff_t>(depth - parent.depth);
  std::unique_ptr<PrefixNode> lower = std::move(parent.children[node.edge.front()]);
  PrefixNode& middle = add_child(parent, {lower->edge.begin(), lower->edge.begin() + upper});
  lower->edge.erase(lower->edge.begin(), lower->edge.begin() + upper);
  lower->parent = &middle;
  middle.children[lower->edge.front()] = std::move(lower);
  return middle;
}

void PrefixTree::erase(PrefixNode& node) {
  node.state.reset();
  PrefixNode* at = &node;
  while (at != &root_ && !at->state && at->children.empty()) {
    PrefixNode* parent = at->parent;
    parent->children.erase(at->edge.front());
    at = parent;
  }
  if (at != &root_ && !at->state && at->children.size() == 1) merge_with_child(*at);
}

std::vector<int32_t> tokens_of(const PrefixNode& node) {
  std::vector<int32_t> tokens(static_cast<size_t>(node.depth));
  for (const PrefixNode* n = &node; n->parent != nullptr; n = n->parent) {
    std::copy(n->edge.begin(), n->edge.end(), tokens.begin() + n->parent->depth);
  }
  return tokens;
}

}  // namespace weir
