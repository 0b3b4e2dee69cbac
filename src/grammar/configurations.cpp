#include "grammar/configurations.h"

#include <algorithm>
#include <utility>

namespace weir::grammar {
namespace {

size_t mix(size_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9u;
}

// Counts that are no further from a bound differ from each other too soon.
constexpr int64_t kFar = 8;

// What a count becomes in a typical configuration. `bytes` is how many cannot bring it to its bound: each
// time, the body takes one at least.
int64_t typical_count(const Rule& rule, int64_t count, int64_t& bytes) {
  const bool below = count < rule.least;
  if (!below && rule.most == kUnbounded) return count;
  const int64_t distance = (below ? rule.least : rule.most) - count - 1;
  if (distance < kFar) return count;
  bytes = std::min(bytes, distance);
  return below ? kLeastIsFar : kMostIsFar;
}

}  // namespace

size_t Configurations::Hash::operator()(const Place& place) const {
  return mix(mix(static_cast<size_t>(place.below), static_cast<uint64_t>(place.rule)),
             static_cast<uint64_t>(place.state));
}

size_t Configurations::Hash::operator()(const Configuration& configuration) const {
  size_t hash = configuration.complete;
  for (const int32_t place : configuration.places) hash = mix(hash, static_cast<uint64_t>(place));
  return hash;
}

Configurations::Configurations(const Grammar& grammar) : grammar_(grammar) {
  ++expansion_;
  Configuration first;
  pending_.push_back(place_of({kNone, grammar_.root, 0}));
  while (!pending_.empty()) {
    const int32_t next = pending_.back();
    pending_.pop_back();
    expand(next, first);
  }
  start_ = number_of(std::move(first));
}

int32_t Configurations::compute(int32_t configuration, Symbol symbol) {
  ++expansion_;
  Configuration next;
  for (const int32_t number : at(configuration).places) {
    const Place from = places_[static_cast<size_t>(number)];
    const int32_t to = rule_of(from).states[static_cast<size_t>(from.state)].after(symbol);
    if (to == kNone) continue;
    const Place there{from.below, from.rule, to};
    if (!can_end(there, depths_[static_cast<size_t>(number)])) continue;
    pending_.push_back(place_of(there));
    while (!pending_.empty()) {
      const int32_t place = pending_.back();
      pending_.pop_back();
      expand(place, next);
    }
  }
  const int32_t number = next.places.empty() && !next.complete ? kNone : number_of(std::move(next));
  table_[row(configuration) + grammar_.class_of[symbol]] = number;
  return number;
}

int32_t Configurations::place_of(const Place& place) {
  const auto [found, is_new] = place_ids_.emplace(place, static_cast<int32_t>(places_.size()));
  if (is_new) {
    places_.push_back(place);
    const int below = place.below == kNone ? -1 : depths_[static_cast<size_t>(place.below)];
    depths_.push_back(static_cast<int16_t>(below + 1));
    expanded_.push_back(0);
  }
  return found->second;
}

int32_t Configurations::number_of(Configuration configuration) {
  std::sort(configuration.places.begin(), configuration.places.end());
  const auto [found, is_new] = ids_.emplace(std::move(configuration), size());
  if (is_new) {
    configurations_.push_back(&found->first);
    table_.resize(table_.size() + static_cast<size_t>(grammar_.classes), kUnknown);
  }
  return found->second;
}

// From the place, at this depth, the grammar's end can be reached without going too deep. The callers' places
// have been seen to when they were entered.
bool Configurations::can_end(const Place& place, int depth) const {
  return depth + height_of(rule_of(place), place.state) <= kDeepest;
}

// Adds the place if a symbol can follow, and notes where ends and calls lead to from there.
void Configurations::expand(int32_t number, Configuration& into) {
  if (expanded_[static_cast<size_t>(number)] == expansion_ || into.places.size() >= kMostPlaces) return;
  expanded_[static_cast<size_t>(number)] = expansion_;
  const Place place = places_[static_cast<size_t>(number)];
  const int depth = depths_[static_cast<size_t>(number)];
  const Rule& rule = rule_of(place);
  if (accepts(rule, place.state)) {
    if (place.below == kNone) {
      into.complete = true;
    } else {
      pending_.push_back(place.below);
    }
  }
  if (rule.repeats()) {
    const bool unbounded = rule.most == kUnbounded;
    if (!unbounded && place.state >= rule.most) return;
    const int64_t next = unbounded ? std::min(place.state + 1, rule.least) : place.state + 1;
    return call(place, depth, rule.body, place.state < 0 ? place.state : next);
  }
  const State& state = rule.states[static_cast<size_t>(place.state)];
  if (!state.edges.empty()) into.places.push_back(number);
  for (const Call& c : state.calls) call(place, depth, c.rule, c.to);
}

void Configurations::call(const Place& from, int depth, int32_t callee, int64_t back) {
  const Place caller{from.below, from.rule, back};
  const Place start{kNone, callee, 0};
  if (!can_end(caller, depth) || !can_end(start, depth + 1)) return;
  const int32_t below = place_of(caller);
  pending_.push_back(place_of({below, callee, 0}));
}

Configurations::Typical Configurations::typical(int32_t configuration) {
  Typical found;
  Configuration all{{}, complete(configuration)};
  std::unordered_map<int32_t, int32_t> originals;
  for (const int32_t place : at(configuration).places) {
    int32_t below = kNone;
    for (const int32_t level : stack_of(place)) {
      const Place original = places_[static_cast<size_t>(level)];
      const Rule& rule = rule_of(original);
      const int64_t state =
          rule.repeats() ? typical_count(rule, original.state, found.bytes) : original.state;
      below = place_of({below, original.rule, state});
      // Places that differ in their counts alone would become one.
      if (originals.emplace(below, level).first->second != level) return {configuration};
    }
    all.places.push_back(below);
  }
  found.configuration = number_of(std::move(all));
  return found;
}

// The place and those below it, the lowest first.
std::vector<int32_t> Configurations::stack_of(int32_t place) const {
  std::vector<int32_t> stack;
  for (int32_t p = place; p != kNone; p = places_[static_cast<size_t>(p)].below) stack.push_back(p);
  std::reverse(stack.begin(), stack.end());
  return stack;
}

int32_t Configurations::keep_only(int32_t configuration) {
  Configuration kept = at(configuration);
  std::vector<Place> old = std::move(places_);
  places_.clear();
  depths_.clear();
  expanded_.clear();
  place_ids_.clear();
  ids_.clear();
  configurations_.clear();
  table_.clear();
  for (int32_t& place : kept.places) {
    std::vector<Place> stack;
    for (int32_t p = place; p != kNone; p = old[static_cast<size_t>(p)].below) {
      stack.push_back(old[static_cast<size_t>(p)]);
    }
    int32_t below = kNone;
    for (auto level = stack.rbegin(); level != stack.rend(); ++level) {
      below = place_of({below, level->rule, level->state});
    }
    place = below;
  }
  return number_of(std::move(kept));
}

}  // namespace weir::grammar
