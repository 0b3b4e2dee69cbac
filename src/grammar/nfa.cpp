#include "grammar/nfa.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::grammar {

// The subset construction: a state of the result is a set of states that the same text can lead to.
class Subsets {
 public:
  Subsets(const Nfa& nfa, int32_t accept) : nfa_(nfa), accept_(accept) {}

  Automaton run() {
    id_of({Nfa::kStart});
    Automaton automaton;
    for (size_t i = 0; i < sets_.size(); ++i) {
      const Set set = sets_[i];
      State state;
      state.accepts = std::binary_search(set.begin(), set.end(), accept_);
      add_edges(set, state);
      add_calls(set, state);
      if (nfa_.work().exhausted()) return {};
      automaton.push_back(std::move(state));
    }
    return automaton;
  }

 private:
  using Set = std::vector<int32_t>;  // ascending

  int32_t id_of(Set set) {
    close(set);
    const auto [found, is_new] = ids_.emplace(std::move(set), static_cast<int32_t>(sets_.size()));
    if (is_new) sets_.push_back(found->first);
    return found->second;
  }

  // Adds what links lead to.
  void close(Set& set) {
    seen_.resize(nfa_.states_.size());
    for (const int32_t state : set) seen_[static_cast<size_t>(state)] = true;
    for (size_t i = 0; i < set.size(); ++i) {
      nfa_.work().spend();
      for (const int32_t next : nfa_.at(set[i]).links) {
        if (seen_[static_cast<size_t>(next)]) continue;
        seen_[static_cast<size_t>(next)] = true;
        set.push_back(next);
      }
    }
    for (const int32_t state : set) seen_[static_cast<size_t>(state)] = false;
    std::sort(set.begin(), set.end());
  }

  // Cuts the symbols where any edge begins or ends: between two cuts all symbols lead to the same set.
  void add_edges(const Set& set, State& state) {
    std::vector<Edge> edges;
    std::vector<int> cuts;
    for (const int32_t from : set) {
      for (const Edge& edge : nfa_.at(from).edges) {
        edges.push_back(edge);
        cuts.push_back(edge.first);
        cuts.push_back(edge.last + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (!nfa_.work().spend(static_cast<int64_t>(edges.size()) / 4 + 1)) return;
      Set targets;
      for (const Edge& edge : edges) {
        if (edge.first <= cuts[i] && cuts[i] <= edge.last) targets.push_back(edge.to);
      }
      if (targets.empty()) continue;
      add_edge(static_cast<Symbol>(cuts[i]), static_cast<Symbol>(cuts[i + 1] - 1), unique(targets), state);
    }
  }

  void add_edge(Symbol first, Symbol last, Set targets, State& state) {
    const int32_t to = id_of(std::move(targets));
    if (!state.edges.empty() && state.edges.back().to == to && state.edges.back().last + 1 == first) {
      state.edges.back().last = last;
    } else {
      state.edges.push_back({first, last, to});
    }
  }

  void add_calls(const Set& set, State& state) {
    std::map<int32_t, Set> targets;
    for (const int32_t from : set) {
      for (const Call& call : nfa_.at(from).calls) targets[call.rule].push_back(call.to);
    }
    for (auto& [rule, to] : targets) state.calls.push_back({rule, id_of(unique(to))});
  }

  static Set unique(Set set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    return set;
  }

  const Nfa& nfa_;
  int32_t accept_;
  std::map<Set, int32_t> ids_;
  std::vector<Set> sets_;
  std::vector<bool> seen_;
};

// Exhausted work adds no states, so that nothing grows any more; the result is discarded anyway.
int32_t Nfa::add() {
  if (work_.spend()) states_.emplace_back();
  return static_cast<int32_t>(states_.size()) - 1;
}

void Nfa::link(int32_t from, int32_t to) {
  if (work_.spend()) at(from).links.push_back(to);
}

void Nfa::range(int32_t from, Symbol first, Symbol last, int32_t to) {
  if (work_.spend()) at(from).edges.push_back({first, last, to});
}

int32_t Nfa::range(int32_t from, Symbol first, Symbol last) {
  const int32_t to = add();
  range(from, first, last, to);
  return to;
}

int32_t Nfa::literal(int32_t from, std::string_view bytes) {
  for (const char c : bytes) {
    if (work_.exhausted()) break;
    const auto byte = static_cast<unsigned char>(c);
    from = range(from, byte, byte);
  }
  return from;
}

int32_t Nfa::marker(int32_t from, int index) {
  const auto symbol = static_cast<Symbol>(kFirstMarker + index);
  return range(from, symbol, symbol);
}

int32_t Nfa::call(int32_t from, int32_t rule) {
  const int32_t to = add();
  if (!work_.exhausted()) at(from).calls.push_back({rule, to});
  return to;
}

int32_t Nfa::insert(int32_t from, const Automaton& automaton) {
  const int32_t to = add();
  std::vector<int32_t> copies;
  for (size_t i = 0; i < automaton.size(); ++i) copies.push_back(add());
  if (work_.exhausted() || automaton.empty()) return to;
  link(from, copies[0]);
  for (size_t i = 0; i < automaton.size(); ++i) {
    for (const Edge& edge : automaton[i].edges) {
      range(copies[i], edge.first, edge.last, copies[static_cast<size_t>(edge.to)]);
    }
    for (const Call& call : automaton[i].calls) {
      at(copies[i]).calls.push_back({call.rule, copies[static_cast<size_t>(call.to)]});
    }
    if (automaton[i].accepts) link(copies[i], to);
  }
  return to;
}

Automaton Nfa::determinize(int32_t accept) const {
  return Subsets(*this, accept).run();
}

}  // namespace weir::grammar
