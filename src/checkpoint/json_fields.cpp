#include "checkpoint/json_fields.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "checkpoint/quote.h"

namespace weir {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

// Only for messages: short, and invalid UTF-8 cannot throw.
std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Error unexpected(const json& value, std::string_view key, std::string_view where, std::string_view expected) {
  return Error{Code::kCorrupt,
               fmt::format("{}: {} is {}, expected {}", where, quote(key), shown(value), expected), ""};
}

Result<const json*> field(const json& object, std::string_view key, std::string_view where) {
  if (!object.is_object()) {
    return Error{
        Code::kCorrupt,
        fmt::format("{}: found {} where an object with {} belongs", where, shown(object), quote(key)), ""};
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    return Error{Code::kCorrupt, fmt::format("{}: {} is missing", where, quote(key)), ""};
  }
  return &*found;
}

std::optional<int64_t> as_int(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

std::optional<int64_t> as_int(const json& value, int64_t min, int64_t max) {
  const auto number = as_int(value);
  return number && *number >= min && *number <= max ? number : std::nullopt;
}

std::string range_text(int64_t min, int64_t max) {
  return fmt::format("from {} to {}", min, max);
}

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view where) {
  bool too_deep = false;
  const auto limit_depth = [&](int depth, json::parse_event_t event, json&) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    too_deep = too_deep || (opens && depth >= kDeepest);
    return !too_deep;
  };
  json value = json::parse(text, limit_depth, /*allow_exceptions=*/false);
  if (too_deep) {
    return Error{Code::kCorrupt, fmt::format("{} is nested more than {} levels deep", where, kDeepest), ""};
  }
  if (value.is_discarded()) {
    return Error{Code::kCorrupt, fmt::format("{} is not JSON", where),
                 "the file is damaged; download it again"};
  }
  return value;
}

Result<int64_t> json_int(const json& object, std::string_view key, int64_t min, int64_t max,
                         std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (const auto number = as_int(*value, min, max)) return *number;
  return unexpected(*value, key, where, "an integer " + range_text(min, max));
}

Result<double> json_double(const json& object, std::string_view key, double min, double max,
                           std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= min && number <= max) return number;
  }
  return unexpected(*value, key, where, fmt::format("a number from {} to {}", min, max));
}

Result<bool> json_bool(const json& object, std::string_view key, std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (value->is_boolean()) return value->get<bool>();
  return unexpected(*value, key, where, "true or false");
}

Result<std::string> json_string(const json& object, std::string_view key, std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (value->is_string()) return value->get<std::string>();
  return unexpected(*value, key, where, "a string");
}

Result<std::vector<int64_t>> json_ints(const json& object, std::string_view key, int64_t min, int64_t max,
                                       std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (const auto number = as_int(*value, min, max)) return std::vector<int64_t>{*number};
  if (!value->is_array()) return unexpected(*value, key, where, "integers " + range_text(min, max));
  std::vector<int64_t> numbers;
  for (const json& item : *value) {
    const auto number = as_int(item, min, max);
    if (!number) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: item {} of {} is {}, expected an integer {}", where, numbers.size(),
                               quote(key), shown(item), range_text(min, max)),
                   ""};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<std::string>> json_strings(const json& object, std::string_view key,
                                              std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (!value->is_array()) return unexpected(*value, key, where, "a list of strings");
  std::vector<std::string> strings;
  for (const json& item : *value) {
    if (!item.is_string()) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: item {} of {} is {}, expected a string", where, strings.size(),
                               quote(key), shown(item)),
                   ""};
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<const json*> json_object(const json& object, std::string_view key, std::string_view where) {
  WEIR_TRY(const json* value, field(object, key, where));
  if (value->is_object()) return value;
  return unexpected(*value, key, where, "an object");
}

bool json_has(const json& object, std::string_view key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

Result<int64_t> json_int_or(const json& object, std::string_view key, int64_t min, int64_t max,
                            std::string_view where, int64_t fallback) {
  return json_has(object, key) ? json_int(object, key, min, max, where) : fallback;
}

Result<double> json_double_or(const json& object, std::string_view key, double min, double max,
                              std::string_view where, double fallback) {
  return json_has(object, key) ? json_double(object, key, min, max, where) : fallback;
}

Result<bool> json_bool_or(const json& object, std::string_view key, std::string_view where, bool fallback) {
  return json_has(object, key) ? json_bool(object, key, where) : fallback;
}

Result<std::string> json_string_or(const json& object, std::string_view key, std::string_view where,
                                   std::string fallback) {
  return json_has(object, key) ? json_string(object, key, where) : std::move(fallback);
}

}  // namespace weir
