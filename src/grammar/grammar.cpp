#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::grammar {
namespace {

// Heights of all states, by increasing height (Knuth, A generalization of Dijkstra's algorithm, 1977).
class Heights {
 public:
  explicit Heights(std::vector<Rule>& rules) : rules_(rules), levels_(kDeepest + 1) {
    for (Rule& rule : rules_) rule.heights.assign(rule.repeats() ? 1 : rule.states.size(), kNever);
    note_uses();
  }

  void run() {
    for (size_t r = 0; r < rules_.size(); ++r) {
      for (size_t s = 0; s < rules_[r].states.size(); ++s) {
        if (rules_[r].states[s].accepts) propose({r, s}, 0);
      }
      // Its single state stands for one match of the body; none at all needs no height.
      if (rules_[r].repeats() && rules_[r].least == 0) started(r, 0);
    }
    for (int level = 0; level <= kDeepest; ++level) {
      for (size_t i = 0; i < levels_[static_cast<size_t>(level)].size(); ++i) {
        settle(levels_[static_cast<size_t>(level)][i], level);
      }
    }
  }

 private:
  struct Place {
    size_t rule, state;
  };
  struct CallPlace {
    Place from, to;
    size_t callee;
  };

  void note_uses() {
    before_.resize(rules_.size());
    callers_.resize(rules_.size());
    starts_.assign(rules_.size(), kNever);
    for (size_t r = 0; r < rules_.size(); ++r) {
      before_[r].resize(rules_[r].states.size());
      for (size_t s = 0; s < rules_[r].states.size(); ++s) {
        for (const Edge& edge : rules_[r].states[s].edges) {
          before_[r][static_cast<size_t>(edge.to)].edges.push_back(s);
        }
        for (const Call& call : rules_[r].states[s].calls) {
          const auto target = static_cast<size_t>(call.to), callee = static_cast<size_t>(call.rule);
          before_[r][target].calls.push_back({s, callee});
          callers_[callee].push_back({{r, s}, {r, target}, callee});
        }
      }
      if (rules_[r].repeats()) {
        const auto body = static_cast<size_t>(rules_[r].body);
        callers_[body].push_back({{r, 0}, {r, 0}, body});
      }
    }
  }

  int height(Place place) const { return rules_[place.rule].heights[place.state]; }

  void propose(Place place, int level) {
    if (level <= kDeepest && level < height(place)) levels_[static_cast<size_t>(level)].push_back(place);
  }

  void settle(Place place, int level) {
    int16_t& known = rules_[place.rule].heights[place.state];
    if (known <= level) return;
    known = static_cast<int16_t>(level);
    const bool repeats = rules_[place.rule].repeats();
    if (place.state == 0 && !(repeats && rules_[place.rule].least == 0)) started(place.rule, level);
    if (repeats) return;
    const Uses& uses = before_[place.rule][place.state];
    for (const size_t from : uses.edges) propose({place.rule, from}, level);
    for (const auto& [from, callee] : uses.calls) {
      if (starts_[callee] != kNever) propose({place.rule, from}, std::max(level, starts_[callee] + 1));
    }
  }

  // The rule can be matched with this height.
  void started(size_t rule, int level) {
    starts_[rule] = level;
    for (const CallPlace& call : callers_[rule]) {
      const bool repeats = rules_[call.from.rule].repeats();
      const int behind = repeats ? 0 : height(call.to);
      if (behind != kNever) propose(call.from, std::max(behind, level + 1));
    }
  }

  struct Uses {
    std::vector<size_t> edges;                     // states with an edge to here
    std::vector<std::pair<size_t, size_t>> calls;  // states with a call that returns here, and its rule
  };

  std::vector<Rule>& rules_;
  std::vector<std::vector<Place>> levels_;
  std::vector<std::vector<Uses>> before_;
  std::vector<std::vector<CallPlace>> callers_;
  std::vector<int> starts_;  // heights of whole rules
};

// Finds rules that call themselves before any symbol.
class LeftRecursion {
 public:
  explicit LeftRecursion(const std::vector<Rule>& rules) : rules_(rules), nullable_(rules.size()) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < rules_.size(); ++r) {
        if (nullable_[r] || !reaches_end(r)) continue;
        nullable_[r] = true;
        changed = true;
      }
    }
  }

  bool found() {
    marks_.assign(rules_.size(), Mark::kNew);
    for (size_t r = 0; r < rules_.size(); ++r) {
      if (marks_[r] == Mark::kNew && visit(r)) return true;
    }
    return false;
  }

 private:
  enum class Mark { kNew, kOpen, kDone };

  // States that can be reached from the rule's start without a symbol.
  std::vector<int32_t> first_states(size_t rule) const {
    std::vector<int32_t> states;
    if (!rules_[rule].states.empty()) states.push_back(0);
    for (size_t i = 0; i < states.size(); ++i) {
      for (const Call& call : rules_[rule].states[static_cast<size_t>(states[i])].calls) {
        const bool known = std::find(states.begin(), states.end(), call.to) != states.end();
        if (nullable_[static_cast<size_t>(call.rule)] && !known) states.push_back(call.to);
      }
    }
    return states;
  }

  bool reaches_end(size_t rule) const {
    if (rules_[rule].repeats()) {
      return rules_[rule].least == 0 || nullable_[static_cast<size_t>(rules_[rule].body)];
    }
    const auto states = first_states(rule);
    return std::any_of(states.begin(), states.end(),
                       [&](int32_t s) { return rules_[rule].states[static_cast<size_t>(s)].accepts; });
  }

  std::vector<size_t> first_calls(size_t rule) const {
    if (rules_[rule].repeats()) {
      // A body that can be empty could be repeated in place.
      const auto body = static_cast<size_t>(rules_[rule].body);
      return nullable_[body] ? std::vector{body, rule} : std::vector{body};
    }
    std::vector<size_t> calls;
    for (const int32_t state : first_states(rule)) {
      for (const Call& call : rules_[rule].states[static_cast<size_t>(state)].calls) {
        calls.push_back(static_cast<size_t>(call.rule));
      }
    }
    return calls;
  }

  // Depth first, without recursion: rules come from outside.
  bool visit(size_t start) {
    std::vector<std::pair<size_t, std::vector<size_t>>> path;
    const auto open = [&](size_t rule) {
      marks_[rule] = Mark::kOpen;
      path.emplace_back(rule, first_calls(rule));
    };
    open(start);
    while (!path.empty()) {
      auto& [rule, calls] = path.back();
      if (calls.empty()) {
        marks_[rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const size_t next = calls.back();
      calls.pop_back();
      if (marks_[next] == Mark::kOpen) return true;
      if (marks_[next] == Mark::kNew) open(next);
    }
    return false;
  }

  const std::vector<Rule>& rules_;
  std::vector<bool> nullable_;
  std::vector<Mark> marks_;
};

void classify_symbols(Grammar& grammar) {
  std::array<bool, kFirstMarker + kMostMarkers + 1> cut{};
  for (int marker = 0; marker <= kMostMarkers; ++marker)
    cut[static_cast<size_t>(kFirstMarker + marker)] = true;
  for (const Rule& rule : grammar.rules) {
    for (const State& state : rule.states) {
      for (const Edge& edge : state.edges) {
        cut[edge.first] = true;
        cut[static_cast<size_t>(edge.last) + 1] = true;
      }
    }
  }
  // At most 256 + 16 classes: bytes are numbered first, and markers after them share what is left.
  int current = -1;
  std::array<int, kFirstMarker + kMostMarkers> classes{};
  for (size_t symbol = 0; symbol < classes.size(); ++symbol) {
    if (symbol == 0 || cut[symbol]) ++current;
    classes[symbol] = current;
  }
  for (size_t symbol = 0; symbol < classes.size(); ++symbol) {
    grammar.class_of[symbol] = static_cast<uint16_t>(classes[symbol]);
  }
  grammar.classes = current + 1;
}

}  // namespace

int32_t GrammarBuilder::declare() {
  grammar_.rules.emplace_back();
  return static_cast<int32_t>(grammar_.rules.size()) - 1;
}

void GrammarBuilder::define(int32_t rule, Automaton automaton) {
  grammar_.rules[static_cast<size_t>(rule)].states = std::move(automaton);
}

int32_t GrammarBuilder::add(Automaton automaton) {
  const int32_t rule = declare();
  define(rule, std::move(automaton));
  return rule;
}

int32_t GrammarBuilder::repeat(int32_t body, int64_t least, int64_t most) {
  const int32_t rule = declare();
  if (most != kUnbounded && most < least) return rule;
  Rule& added = grammar_.rules[static_cast<size_t>(rule)];
  added.body = body;
  added.least = least;
  added.most = most;
  return rule;
}

int GrammarBuilder::marker(const std::string& spelling) {
  auto& markers = grammar_.markers;
  const auto found = std::find(markers.begin(), markers.end(), spelling);
  if (found != markers.end()) return static_cast<int>(found - markers.begin());
  WEIR_CHECK(markers.size() < kMostMarkers);
  markers.push_back(spelling);
  return static_cast<int>(markers.size()) - 1;
}

Result<Grammar> GrammarBuilder::finish(int32_t root) {
  WEIR_RETURN_IF_ERROR(work_.status());
  if (LeftRecursion(grammar_.rules).found()) {
    return Error{Code::kInvalidArgument, "the schema refers to itself with nothing between", ""};
  }
  grammar_.root = root;
  Heights(grammar_.rules).run();
  if (height_of(grammar_.rules[static_cast<size_t>(root)], 0) >= kDeepest) {
    return Error{Code::kInvalidArgument, "no value of bounded depth satisfies the schema", ""};
  }
  classify_symbols(grammar_);
  return std::move(grammar_);
}

namespace {

bool has_least(const Rule& rule, int64_t state) {
  return state == kMostIsFar || state >= rule.least;
}

}  // namespace

int height_of(const Rule& rule, int64_t state) {
  if (!rule.repeats()) return rule.states.empty() ? kNever : rule.heights[static_cast<size_t>(state)];
  return has_least(rule, state) ? 0 : rule.heights[0];
}

bool accepts(const Rule& rule, int64_t state) {
  return rule.repeats() ? has_least(rule, state) : rule.states[static_cast<size_t>(state)].accepts;
}

}  // namespace weir::grammar
