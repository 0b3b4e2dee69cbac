#include "cli/quantity.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace weir::cli {
namespace {

// 0 for what is no unit.
int64_t factor_of(std::string_view unit) {
  const bool in_bytes = unit.ends_with('B');
  if (in_bytes) unit.remove_suffix(1);
  if (unit.empty()) return 1;
  const bool has_i = unit.ends_with('i');
  if (has_i) unit.remove_suffix(1);
  const size_t letter = unit.size() == 1 ? std::string_view("kmgKMG").find(unit[0]) : std::string_view::npos;
  if (letter == std::string_view::npos) return 0;
  const int64_t step = has_i || (letter >= 3 && !in_bytes) ? 1024 : 1000;
  int64_t factor = step;
  for (size_t power = 0; power < letter % 3; ++power) factor *= step;
  return factor;
}

Error not_a_quantity(std::string_view text) {
  return {Code::kInvalidArgument, fmt::format("'{}' is not a count or size", text),
          "a whole number with an optional unit, such as 4096, 32k or 8GiB"};
}

std::string scaled(double value, double step, const std::array<const char*, 5>& units) {
  size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

Result<int64_t> parse_quantity(std::string_view text) {
  int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || number < 0) return not_a_quantity(text);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const int64_t factor = factor_of(unit);
  if (factor == 0 || number > std::numeric_limits<int64_t>::max() / factor) return not_a_quantity(text);
  return number * factor;
}

std::string size_text(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string count_text(uint64_t count) {
  return scaled(static_cast<double>(count), 1000, {"", " k", " M", " G", " T"});
}

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace weir::cli
