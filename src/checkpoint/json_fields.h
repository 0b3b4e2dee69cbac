// JSON from outside, parsed and read without exceptions. `where` names the file in messages, such as the path
// of config.json. Every error is kCorrupt and names file and key, what was found and what was expected.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir {

// Parses one JSON value of at most 64 levels. Of a key that occurs twice the last counts.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view where);

// The value of `key` in `object`. Integers and reals must lie in [min, max]; reals may be written as
// integers.
Result<int64_t> json_int(const nlohmann::json& object, std::string_view key, int64_t min, int64_t max,
                         std::string_view where);
Result<double> json_double(const nlohmann::json& object, std::string_view key, double min, double max,
                           std::string_view where);
Result<bool> json_bool(const nlohmann::json& object, std::string_view key, std::string_view where);
Result<std::string> json_string(const nlohmann::json& object, std::string_view key, std::string_view where);

// A list of integers; a lone integer is a list of one, as eos_token_id is written both ways.
Result<std::vector<int64_t>> json_ints(const nlohmann::json& object, std::string_view key, int64_t min,
                                       int64_t max, std::string_view where);
Result<std::vector<std::string>> json_strings(const nlohmann::json& object, std::string_view key,
                                              std::string_view where);

// A nested object; a pointer into `object`.
Result<const nlohmann::json*> json_object(const nlohmann::json& object, std::string_view key,
                                          std::string_view where);

// True when `key` is there and not null.
bool json_has(const nlohmann::json& object, std::string_view key);

// The same with a default for a key that is absent or null; a value of the wrong kind is still an error.
Result<int64_t> json_int_or(const nlohmann::json& object, std::string_view key, int64_t min, int64_t max,
                            std::string_view where, int64_t fallback);
Result<double> json_double_or(const nlohmann::json& object, std::string_view key, double min, double max,
                              std::string_view where, double fallback);
Result<bool> json_bool_or(const nlohmann::json& object, std::string_view key, std::string_view where,
                          bool fallback);
Result<std::string> json_string_or(const nlohmann::json& object, std::string_view key, std::string_view where,
                                   std::string fallback);

}  // namespace weir
