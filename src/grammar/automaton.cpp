#include "grammar/automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace weir::grammar {
namespace {

constexpr int kBytes = 256;
constexpr int32_t kNone = -1;

// A tree of byte strings; with failure links, the automaton of Aho and Corasick (1975).
class WordTree {
 public:
  struct Node {
    std::array<int32_t, kBytes> next;
    bool ends = false;  // a word
  };

  WordTree(const std::vector<std::string>& words, Work& work) : work_(work) {
    add_node();
    for (const std::string& word : words) insert(word);
  }

  // Turns missing children into those of the longest suffix that is in the tree.
  void link_failures() {
    std::vector<int32_t> fail(nodes_.size(), 0);
    std::vector<int32_t> order;
    for (int32_t& child : nodes_[0].next) {
      if (child == kNone) child = 0;
      if (child != 0) order.push_back(child);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const int32_t node = order[i];
      const Node& suffix = at(fail[static_cast<size_t>(node)]);
      at(node).ends |= suffix.ends;
      for (size_t byte = 0; byte < kBytes; ++byte) {
        int32_t& child = at(node).next[byte];
        const int32_t other = suffix.next[byte];
        if (child == kNone) {
          child = other;
        } else {
          fail[static_cast<size_t>(child)] = other;
          order.push_back(child);
        }
      }
    }
  }

  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }

 private:
  int32_t add_node() {
    Node node;
    node.next.fill(kNone);
    nodes_.push_back(node);
    return size() - 1;
  }

  void insert(std::string_view word) {
    int32_t node = 0;
    for (const char c : word) {
      if (!work_.spend(kBytes / 8)) return;
      const auto byte = static_cast<unsigned char>(c);
      if (at(node).next[byte] == kNone) {
        const int32_t child = add_node();
        at(node).next[byte] = child;
      }
      node = at(node).next[byte];
    }
    at(node).ends = true;
  }

  Work& work_;
  std::vector<Node> nodes_;
};

// Edges to `targets`, one a byte; kNone: no edge.
std::vector<Edge> edges_to(const std::array<int32_t, kBytes>& targets) {
  std::vector<Edge> edges;
  for (size_t byte = 0; byte < kBytes; ++byte) {
    if (targets[byte] == kNone) continue;
    const auto symbol = static_cast<Symbol>(byte);
    if (!edges.empty() && edges.back().to == targets[byte] && edges.back().last + 1 == symbol) {
      edges.back().last = symbol;
    } else {
      edges.push_back({symbol, symbol, targets[byte]});
    }
  }
  return edges;
}

// Puts state `start` first.
Automaton starting_at(Automaton automaton, int32_t start) {
  const auto renamed = [&](int32_t state) { return state == start ? 0 : state == 0 ? start : state; };
  std::swap(automaton[0], automaton[static_cast<size_t>(start)]);
  for (State& state : automaton) {
    for (Edge& edge : state.edges) edge.to = renamed(edge.to);
  }
  return automaton;
}

}  // namespace

int32_t State::after(Symbol symbol) const {
  const auto edge = std::lower_bound(edges.begin(), edges.end(), symbol,
                                     [](const Edge& e, Symbol s) { return e.last < s; });
  return edge != edges.end() && edge->first <= symbol ? edge->to : kNone;
}

Automaton intersect(const Automaton& a, const Automaton& b, Work& work) {
  Automaton product;
  if (a.empty() || b.empty()) return product;
  std::map<std::pair<int32_t, int32_t>, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto id_of = [&](int32_t x, int32_t y) {
    const auto [found, is_new] = ids.emplace(std::pair(x, y), static_cast<int32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(x, y);
    return found->second;
  };
  id_of(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const State& x = a[static_cast<size_t>(pairs[i].first)];
    const State& y = b[static_cast<size_t>(pairs[i].second)];
    if (!work.spend(8 + static_cast<int64_t>(x.edges.size() + y.edges.size()))) return {};
    State both;
    both.accepts = x.accepts && y.accepts;
    for (size_t m = 0, n = 0; m < x.edges.size() && n < y.edges.size();) {
      const Edge &e = x.edges[m], &f = y.edges[n];
      const Symbol first = std::max(e.first, f.first), last = std::min(e.last, f.last);
      if (first <= last) both.edges.push_back({first, last, id_of(e.to, f.to)});
      ++(e.last < f.last ? m : n);
    }
    product.push_back(std::move(both));
  }
  return product;
}

Automaton avoiding(const std::vector<std::string>& words, std::string_view before, Work& work) {
  WordTree tree(words, work);
  tree.link_failures();
  Automaton automaton(static_cast<size_t>(tree.size()));
  for (int32_t node = 0; node < tree.size(); ++node) {
    State& state = automaton[static_cast<size_t>(node)];
    state.accepts = true;
    auto targets = tree.at(node).next;
    for (int32_t& target : targets) {
      if (tree.at(target).ends) target = kNone;
    }
    state.edges = edges_to(targets);
    if (!work.spend(kBytes / 8)) return {};
  }
  int32_t start = 0;
  for (const char c : before) start = tree.at(start).next[static_cast<unsigned char>(c)];
  return starting_at(std::move(automaton), start);
}

Automaton excluding(const std::vector<std::string>& strings, Work& work) {
  WordTree tree(strings, work);
  const int32_t elsewhere = tree.size();
  Automaton automaton(static_cast<size_t>(elsewhere) + 1);
  for (int32_t node = 0; node < elsewhere; ++node) {
    State& state = automaton[static_cast<size_t>(node)];
    state.accepts = !tree.at(node).ends;
    auto targets = tree.at(node).next;
    std::replace(targets.begin(), targets.end(), kNone, elsewhere);
    state.edges = edges_to(targets);
    if (!work.spend(kBytes / 8)) return {};
  }
  automaton.back() = {{{0, kBytes - 1, elsewhere}}, {}, true};
  return automaton;
}

bool matches(const Automaton& automaton, std::string_view text) {
  if (automaton.empty()) return false;
  int32_t state = 0;
  for (const char c : text) {
    state = automaton[static_cast<size_t>(state)].after(static_cast<unsigned char>(c));
    if (state == kNone) return false;
  }
  return automaton[static_cast<size_t>(state)].accepts;
}

}  // namespace weir::grammar
