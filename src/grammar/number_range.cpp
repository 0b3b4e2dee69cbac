#include "grammar/number_range.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "grammar/nfa.h"

namespace weir::grammar {
namespace {

constexpr int kWholeDigits = 18;
constexpr int kDigits = 15;  // that a float64 always tells apart

// A decimal: |x| is whole.fraction, without zeros in front of `whole` and at the end of `fraction`.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;
};

Decimal decimal_of(const Json& number) {
  std::string text;
  if (number.is_number_float()) {
    char buffer[400];
    const auto written =
        std::to_chars(buffer, buffer + sizeof buffer, number.get<double>(), std::chars_format::fixed);
    text.assign(buffer, written.ptr);
  } else {
    text = number.dump();
  }
  Decimal decimal;
  decimal.negative = text[0] == '-';
  if (decimal.negative) text.erase(0, 1);
  const size_t point = text.find('.');
  decimal.whole = text.substr(0, point);
  if (point != std::string::npos) decimal.fraction = text.substr(point + 1);
  while (decimal.fraction.ends_with('0')) decimal.fraction.pop_back();
  if (decimal.whole == "0" && decimal.fraction.empty()) decimal.negative = false;
  return decimal;
}

enum class Side { kAtLeast, kAtMost };

// Magnitudes on one side of a decimal, of any number of digits.
class Magnitudes {
 public:
  Magnitudes(Nfa& nfa, int32_t accept) : nfa_(nfa), accept_(accept) {}

  void add_all(int32_t from) {
    const int32_t whole = nfa_.add();
    nfa_.range(from, '0', '0', whole);
    nfa_.link(digits(nfa_.range(from, '1', '9')), whole);
    end_with_any_fraction(whole);
  }

  void add(int32_t from, const Decimal& bound, bool exclusive, Side side) {
    const int length = static_cast<int>(bound.whole.size());
    if (side == Side::kAtLeast) {  // longer is larger
      int32_t at = nfa_.range(from, '1', '9');
      for (int i = 0; i < length; ++i) at = nfa_.range(at, '0', '9');
      end_with_any_fraction(digits(at));
    } else if (length > 1) {
      nfa_.link(nfa_.range(from, '0', '0'), any_fraction());
      for (int shorter = 1; shorter < length; ++shorter) add_free(nfa_.range(from, '1', '9'), shorter - 1);
    }
    int32_t equal = from;
    for (int i = 0; i < length; ++i) {
      const char digit = bound.whole[static_cast<size_t>(i)];
      const char lowest = i == 0 && length > 1 ? '1' : '0';
      const auto [first, last] = beyond(digit, lowest, side);
      if (first <= last) add_free(nfa_.range(equal, first, last), length - i - 1);
      equal = nfa_.range(equal, static_cast<Symbol>(digit), static_cast<Symbol>(digit));
    }
    add_fraction(equal, bound.fraction, exclusive, side);
  }

 private:
  // Digits on the side of `digit` that the bound leaves free.
  static std::pair<Symbol, Symbol> beyond(char digit, char lowest, Side side) {
    if (side == Side::kAtLeast) return {static_cast<Symbol>(digit + 1), '9'};
    return {static_cast<Symbol>(lowest), static_cast<Symbol>(digit - 1)};
  }

  int32_t digits(int32_t from) {
    const int32_t loop = nfa_.add();
    nfa_.link(from, loop);
    nfa_.range(loop, '0', '9', loop);
    return loop;
  }

  int32_t any_fraction() {
    const int32_t at = nfa_.add();
    end_with_any_fraction(at);
    return at;
  }

  void end_with_any_fraction(int32_t from) {
    nfa_.link(from, accept_);
    nfa_.link(digits(nfa_.range(nfa_.range(from, '.', '.'), '0', '9')), accept_);
  }

  void add_free(int32_t from, int count) {
    for (int i = 0; i < count; ++i) from = nfa_.range(from, '0', '9');
    end_with_any_fraction(from);
  }

  // Behind a whole part equal to the bound's. A missing digit is a zero, and the bound's fraction ends with
  // another digit: a text that ends before it is less, one that goes on is not less.
  void add_fraction(int32_t whole, const std::string& fraction, bool exclusive, Side side) {
    const bool at_most = side == Side::kAtMost;
    if (fraction.empty() ? !exclusive : at_most) nfa_.link(whole, accept_);
    int32_t equal = nfa_.range(whole, '.', '.');
    for (size_t i = 0; i < fraction.size(); ++i) {
      const auto [first, last] = beyond(fraction[i], '0', side);
      if (first <= last) nfa_.link(digits(nfa_.range(equal, first, last)), accept_);
      equal = nfa_.range(equal, static_cast<Symbol>(fraction[i]), static_cast<Symbol>(fraction[i]));
      if (at_most && i + 1 < fraction.size()) nfa_.link(equal, accept_);
    }
    if (!fraction.empty() && !exclusive) nfa_.link(equal, accept_);
    const int32_t zeros = nfa_.add();
    nfa_.link(equal, zeros);
    const int32_t more = nfa_.range(zeros, '0', '0');
    nfa_.link(more, zeros);
    if (!exclusive) nfa_.link(more, accept_);
    if (!at_most) nfa_.link(digits(nfa_.range(zeros, '1', '9')), accept_);
  }

  Nfa& nfa_;
  int32_t accept_;
};

Automaton on_side(const Bound& bound, Side side, Work& work) {
  const Decimal decimal = decimal_of(bound.value);
  Nfa nfa(work);
  const int32_t accept = nfa.add();
  Magnitudes magnitudes(nfa, accept);
  const int32_t minus = nfa.range(Nfa::kStart, '-', '-');
  const bool at_least = side == Side::kAtLeast;
  const Side mirrored = at_least ? Side::kAtMost : Side::kAtLeast;
  if (decimal.negative) {
    magnitudes.add(minus, decimal, bound.exclusive, mirrored);
    if (at_least) magnitudes.add_all(Nfa::kStart);
  } else {
    magnitudes.add(Nfa::kStart, decimal, bound.exclusive, side);
    if (!at_least && decimal.whole + decimal.fraction != "0") magnitudes.add_all(minus);
    if (!at_least && decimal.whole + decimal.fraction == "0") {
      // Below zero, or minus zero.
      magnitudes.add(minus, decimal, bound.exclusive, mirrored);
    }
  }
  return nfa.determinize(accept);
}

// The form of a number: [-]digits[.digits][e[+-]digits].
Automaton shape(int whole, int fraction, bool exponent, Work& work) {
  Nfa nfa(work);
  const int32_t accept = nfa.add();
  const int32_t sign = nfa.range(Nfa::kStart, '-', '-');
  nfa.link(Nfa::kStart, sign);
  const int32_t before = nfa.add();
  nfa.link(nfa.range(sign, '0', '0'), before);
  int32_t at = nfa.range(sign, '1', '9');
  for (int i = 1; i < whole; ++i) {
    nfa.link(at, before);
    at = nfa.range(at, '0', '9');
  }
  nfa.link(at, before);
  const int32_t behind = nfa.add();
  nfa.link(before, behind);
  at = nfa.range(before, '.', '.');
  for (int i = 0; i < fraction; ++i) {
    at = nfa.range(at, '0', '9');
    nfa.link(at, behind);
  }
  nfa.link(behind, accept);
  if (!exponent) return nfa.determinize(accept);
  const int32_t e = nfa.add();
  nfa.range(behind, 'e', 'e', e);
  nfa.range(behind, 'E', 'E', e);
  const int32_t signed_e = nfa.add();
  nfa.link(e, signed_e);
  nfa.range(e, '+', '+', signed_e);
  nfa.range(e, '-', '-', signed_e);
  at = nfa.range(signed_e, '0', '9');
  nfa.link(at, accept);
  nfa.link(nfa.range(at, '0', '9'), accept);
  return nfa.determinize(accept);
}

}  // namespace

Result<Automaton> number_automaton(const NumberRange& range, Work& work) {
  const bool bounded = range.least || range.most;
  int whole = range.whole ? kWholeDigits : kDigits, fraction = range.whole ? 0 : kDigits;
  if (bounded && !range.whole) {
    size_t longest = 1;
    for (const auto& bound : {range.least, range.most}) {
      if (!bound) continue;
      const Decimal decimal = decimal_of(bound->value);
      longest = std::max(longest, decimal.whole.size());
      if (decimal.whole.size() + decimal.fraction.size() > 2 * kDigits) {
        return Error{Code::kUnsupported, "a bound of numbers has too many digits: " + bound->value.dump(),
                     "up to 15 before the point and 15 in all"};
      }
    }
    whole = range.least && range.most ? static_cast<int>(std::min<size_t>(longest, kDigits)) : kDigits - 6;
    whole = std::max(whole, static_cast<int>(std::min<size_t>(longest, kDigits)));
    fraction = kDigits - whole;
  }
  Automaton numbers = shape(whole, fraction, !bounded && !range.whole, work);
  if (range.least) numbers = intersect(numbers, on_side(*range.least, Side::kAtLeast, work), work);
  if (range.most) numbers = intersect(numbers, on_side(*range.most, Side::kAtMost, work), work);
  return numbers;
}

}  // namespace weir::grammar
