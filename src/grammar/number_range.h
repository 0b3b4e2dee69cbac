// Numbers between bounds, digit by digit.
#pragma once

#include <optional>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/json.h"

namespace weir::grammar {

struct Bound {
  Json value;  // a number
  bool exclusive = false;
};

struct NumberRange {
  bool whole = false;  // integers, without a point
  std::optional<Bound> least, most;
};

// Integers have up to 18 digits. Other numbers have up to 15 digits before the point and 15 behind it, and an
// exponent of up to two digits, so that every reader's float64 holds them. Between bounds they have no
// exponent and no more than 15 digits in all: two such numbers that differ are different float64s, so that
// the comparison of the texts is that of the values. Error: kUnsupported when a bound is too large for that.
Result<Automaton> number_automaton(const NumberRange& range, Work& work);

}  // namespace weir::grammar
