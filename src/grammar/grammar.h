// A grammar over bytes and markers: automata that call each other, and so match what nests.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace weir::grammar {

// Rules that are open at a time while text is matched. Deeper text is not part of the language.
inline constexpr int kDeepest = 160;
// Of a state from which nothing can be completed.
inline constexpr int kNever = std::numeric_limits<int16_t>::max();

inline constexpr int64_t kUnbounded = -1;

// Either an automaton, or `body` from `least` to `most` times in a row.
struct Rule {
  Automaton states;
  int32_t body = -1;  // -1: an automaton
  int64_t least = 0, most = kUnbounded;

  // Rules that must be opened, one in the other, to get from a state to the end of this rule; kNever. Of a
  // repetition one number: to match the body once.
  std::vector<int16_t> heights;

  bool repeats() const { return body >= 0; }
};

struct Grammar {
  std::vector<Rule> rules;
  int32_t root = 0;
  std::vector<std::string> markers;  // spellings of the tokens that symbols from kFirstMarker on stand for

  // Symbols that no rule tells apart have the same class.
  std::array<uint16_t, kFirstMarker + kMostMarkers> class_of{};
  int classes = 0;
};

class GrammarBuilder {
 public:
  explicit GrammarBuilder(Work& work) : work_(work) {}

  int32_t declare();  // a rule to be defined before finish()
  void define(int32_t rule, Automaton automaton);
  int32_t add(Automaton automaton);
  int32_t repeat(int32_t body, int64_t least, int64_t most);  // most: or kUnbounded
  int marker(const std::string& spelling);                    // its index; at most kMostMarkers

  // The rule that is known by this key to all who build this grammar; -1 until somebody sets it.
  int32_t& shared(const std::string& key) { return shared_.emplace(key, -1).first->second; }

  Work& work() { return work_; }

  // Errors: kInvalidArgument when nothing can match, when the work is exhausted, or when a rule calls itself
  // or repeats with nothing between.
  Result<Grammar> finish(int32_t root);

 private:
  Work& work_;
  Grammar grammar_;
  std::map<std::string, int32_t> shared_;
};

// Facts about a state, which of a repetition is how often the body has been matched. Two states of a
// repetition stand for all that are far from a bound and do not change: that the least is far away, and that
// it has been reached and the most is far away.
inline constexpr int64_t kLeastIsFar = -1, kMostIsFar = -2;
int height_of(const Rule& rule, int64_t state);
bool accepts(const Rule& rule, int64_t state);

}  // namespace weir::grammar
