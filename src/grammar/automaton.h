// Deterministic automata over bytes and markers, which may call rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/work.h"

namespace weir::grammar {

// A symbol is a byte, or kFirstMarker + i for the i-th marker of a grammar: a token such as <tool_call> that
// stands for itself and not for its letters.
using Symbol = uint16_t;
inline constexpr Symbol kFirstMarker = 256;
inline constexpr int kMostMarkers = 16;

struct Edge {
  Symbol first = 0, last = 0;  // of a range
  int32_t to = 0;
};

// What the rule matches stands between this state and `to`.
struct Call {
  int32_t rule = 0;
  int32_t to = 0;
};

struct State {
  std::vector<Edge> edges;  // ascending, disjoint
  std::vector<Call> calls;  // of different rules; they may match the same text as each other and the edges
  bool accepts = false;

  // The state behind `symbol`; -1: none.
  int32_t after(Symbol symbol) const;
};

// State 0 is the start. Empty: matches nothing.
using Automaton = std::vector<State>;

// What both match. Neither calls rules.
Automaton intersect(const Automaton& a, const Automaton& b, Work& work);

// All strings of bytes that hold none of `words`, where `before` has been read already.
Automaton avoiding(const std::vector<std::string>& words, std::string_view before, Work& work);

// All strings of bytes but these.
Automaton excluding(const std::vector<std::string>& strings, Work& work);

// Of an automaton without calls.
bool matches(const Automaton& automaton, std::string_view text);

}  // namespace weir::grammar
