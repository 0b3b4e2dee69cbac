#include "chat/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/utf8.h"

namespace weir {
namespace {

struct Shape {
  int deepest = 0;          // nesting of the brackets outside strings
  int64_t comparisons = 0;  // of keys: an object compares each new key with those before it
};

// Exact for valid JSON, and an upper bound on how far a parser can get in anything else, since up to the
// first error both see the same strings.
Shape shape_of(std::string_view text) {
  Shape shape;
  std::vector<int64_t> members = {0};  // of each open bracket, the text itself first
  bool in_string = false;
  for (size_t i = 0; i < text.size() && shape.deepest <= kMaxJsonDepth; ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      members.push_back(0);
      shape.deepest = std::max(shape.deepest, static_cast<int>(members.size()) - 1);
    } else if ((c == ']' || c == '}') && members.size() > 1) {
      members.pop_back();
    } else if (c == ':') {
      shape.comparisons += members.back()++;
    }
  }
  return shape;
}

Error too_deep(std::string_view where) {
  return {Code::kInvalidArgument,
          std::string(where) + " nests deeper than " + std::to_string(kMaxJsonDepth) + " levels.", ""};
}

Status check_level(const Json& value, std::string_view where, int level) {
  if (value.is_string()) {
    if (is_valid_utf8(value.get_ref<const std::string&>())) return Ok{};
    return Error{Code::kInvalidArgument, std::string(where) + " holds text that is not valid UTF-8.", ""};
  }
  if (!value.is_structured()) return Ok{};
  if (level >= kMaxJsonDepth) return too_deep(where);
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (value.is_object() && !is_valid_utf8(item.key())) {
      return Error{Code::kInvalidArgument, std::string(where) + " has a key that is not valid UTF-8.", ""};
    }
    WEIR_RETURN_IF_ERROR(check_level(*item, where, level + 1));
  }
  return Ok{};
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  out += json_escaped(text);
  out += '"';
}

void append_value(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
    case Json::value_t::array: {
      const bool object = value.is_object();
      out += object ? '{' : '[';
      for (auto item = value.begin(); item != value.end(); ++item) {
        if (item != value.begin()) out += ", ";
        if (object) {
          append_quoted(out, item.key());
          out += ": ";
        }
        append_value(out, *item);
      }
      out += object ? '}' : ']';
      return;
    }
    case Json::value_t::string:
      return append_quoted(out, value.get_ref<const std::string&>());
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_integer:
      out += std::to_string(value.get<int64_t>());
      return;
    case Json::value_t::number_unsigned:
      out += std::to_string(value.get<uint64_t>());
      return;
    case Json::value_t::number_float:
      out += python_float(value.get<double>());
      return;
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      out += "null";
      return;
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  const Shape shape = shape_of(text);
  if (shape.deepest > kMaxJsonDepth) return too_deep("The JSON text");
  if (shape.comparisons > kMaxJsonComparisons) {
    return Error{Code::kInvalidArgument,
                 "The JSON text has objects of too many members: one may have about 23,000.", ""};
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return Error{Code::kInvalidArgument,
                 "The text is not valid JSON: the first error is at byte " + std::to_string(e.byte) + ".",
                 ""};
  } catch (const Json::exception&) {
    return Error{Code::kInvalidArgument, "The JSON text has a number that does not fit in a float64.", ""};
  }
}

Status check_json(const Json& value, std::string_view where) {
  return check_level(value, where, 0);
}

std::string python_json(const Json& value) {
  std::string out;
  append_value(out, value);
  return out;
}

std::string json_escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20) {
          out += c;
        } else {
          out += "\\u00";
          out += kHex[byte >> 4];
          out += kHex[byte & 15];
        }
      }
    }
  }
  return out;
}

// Python prints a float in fixed notation while its decimal exponent is in [-4, 16).
std::string python_float(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x < 0 ? "-Infinity" : "Infinity";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));  // [-]d[.ddd]e[+-]xx
  std::string out;
  if (shortest[0] == '-') {
    out = "-";
    shortest.remove_prefix(1);
  }
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return out.append(shortest);
  std::string digits(shortest.substr(0, e));
  std::erase(digits, '.');
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string shown(const Json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > kLongest) return "a long string";
  return python_json(value);
}

}  // namespace weir
