// Nondeterministic automata under construction, and the deterministic ones that they become.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"

namespace weir::grammar {

// Most functions lead from a state to another one, which they return, so that a sequence reads as one.
class Nfa {
 public:
  explicit Nfa(Work& work) : work_(work) { states_.emplace_back(); }

  static constexpr int32_t kStart = 0;

  int32_t add();
  void link(int32_t from, int32_t to);  // without a symbol
  void range(int32_t from, Symbol first, Symbol last, int32_t to);

  int32_t range(int32_t from, Symbol first, Symbol last);
  int32_t literal(int32_t from, std::string_view bytes);
  int32_t marker(int32_t from, int index);
  int32_t call(int32_t from, int32_t rule);
  int32_t insert(int32_t from, const Automaton& automaton);

  // What leads from `accept` on does not count. Empty once the work is exhausted.
  Automaton determinize(int32_t accept) const;

  Work& work() const { return work_; }

 private:
  struct Node {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    std::vector<int32_t> links;
  };
  friend class Subsets;

  Node& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  const Node& at(int32_t state) const { return states_[static_cast<size_t>(state)]; }

  Work& work_;
  std::vector<Node> states_;
};

}  // namespace weir::grammar
