// Where in a grammar a text can be: the grammar's pushdown automaton, made deterministic as far as it is
// looked at.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace weir::grammar {

// Most places that are followed side by side, as where alternatives begin alike. Further ones are dropped:
// the language becomes smaller then, but each of its texts is one of the grammar, and each beginning can be
// completed.
inline constexpr size_t kMostPlaces = 128;

// A configuration is a set of places. A place is a state of a rule and, below it, the states that the calling
// rules will go on from: a stack. Stacks share what they have in common.
class Configurations {
 public:
  static constexpr int32_t kNone = -1;

  // `grammar` must outlive it.
  explicit Configurations(const Grammar& grammar);

  int32_t start() const { return start_; }

  // The configuration behind `symbol`, kNone when no text of the grammar goes on so.
  int32_t after(int32_t configuration, Symbol symbol) {
    const int32_t known = table_[row(configuration) + grammar_.class_of[symbol]];
    return known == kUnknown ? compute(configuration, symbol) : known;
  }

  // The text may end here.
  bool complete(int32_t configuration) const { return at(configuration).complete; }
  size_t places(int32_t configuration) const { return at(configuration).places.size(); }

  // One configuration in place of many that differ in how far counts are from their bounds. It goes on in the
  // same way with texts of up to `bytes` bytes, to as many places or to more, where one is met in two ways.
  struct Typical {
    int32_t configuration = kNone;
    int64_t bytes = std::numeric_limits<int64_t>::max();
  };
  Typical typical(int32_t configuration);

  int32_t size() const { return static_cast<int32_t>(configurations_.size()); }

  // Forgets all configurations but this one, which gets the number that is returned.
  int32_t keep_only(int32_t configuration);

 private:
  static constexpr int32_t kUnknown = -2;

  struct Place {
    int32_t below = kNone;  // the caller's place
    int32_t rule = 0;
    int64_t state = 0;  // of a repetition: how often the body has been matched
    bool operator==(const Place&) const = default;
  };
  struct Configuration {
    std::vector<int32_t> places;  // ascending
    bool complete = false;
    bool operator==(const Configuration&) const = default;
  };
  struct Hash {
    size_t operator()(const Place& place) const;
    size_t operator()(const Configuration& configuration) const;
  };

  const Configuration& at(int32_t c) const { return *configurations_[static_cast<size_t>(c)]; }
  size_t row(int32_t c) const { return static_cast<size_t>(c) * static_cast<size_t>(grammar_.classes); }
  const Rule& rule_of(const Place& place) const { return grammar_.rules[static_cast<size_t>(place.rule)]; }

  int32_t compute(int32_t configuration, Symbol symbol);
  int32_t place_of(const Place& place);
  int32_t number_of(Configuration configuration);
  std::vector<int32_t> stack_of(int32_t place) const;
  bool can_end(const Place& place, int depth) const;
  void expand(int32_t place, Configuration& into);
  void call(const Place& from, int depth, int32_t callee, int64_t back);

  const Grammar& grammar_;
  int32_t start_ = kNone;
  std::unordered_map<Place, int32_t, Hash> place_ids_;
  std::vector<Place> places_;
  std::vector<int16_t> depths_;     // of places: how many are below
  std::vector<uint32_t> expanded_;  // of places: the last expansion that met them
  uint32_t expansion_ = 0;
  std::vector<int32_t> pending_;  // places that the expansion has still to look at
  std::unordered_map<Configuration, int32_t, Hash> ids_;
  std::vector<const Configuration*> configurations_;  // keys of ids_
  std::vector<int32_t> table_;                        // [configurations, classes]: what each symbol leads to
};

}  // namespace weir::grammar
