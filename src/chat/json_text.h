// JSON text, read with a limit on nesting and written as Python's json.dumps(value, ensure_ascii=False)
// writes it, because the models were trained on prompts that Python rendered.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir {

// Keys stay in the order in which they were given.
using Json = nlohmann::ordered_json;

// Copying, comparing and printing a Json recurse, so no deeper value may enter the program.
inline constexpr int kMaxJsonDepth = 256;

// An object that keeps the order of its keys finds one by comparing it with all, so reading takes the square
// of their number. This many comparisons take about a third of a second.
inline constexpr int64_t kMaxJsonComparisons = int64_t{1} << 28;

// Errors: kInvalidArgument for anything that is not one JSON value, for invalid UTF-8, for a number beyond
// float64, for nesting beyond kMaxJsonDepth and for objects that take more than kMaxJsonComparisons.
Result<Json> parse_json(std::string_view text);

// kInvalidArgument when `value` nests beyond kMaxJsonDepth or holds invalid UTF-8. `where` names the value in
// the message, such as "messages[2].content".
Status check_json(const Json& value, std::string_view where);

// Separators ", " and ": ", no other space; only what must be escaped is escaped; floats as python_float.
std::string python_json(const Json& value);

// The value as it may be shown in a message: strings in quotes, long ones and containers by their type.
std::string shown(const Json& value);

// repr() of a Python float: the shortest digits that read back as `x`, always with a point or an exponent.
std::string python_float(double x);

// The characters between the quotes of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace weir
