// What is done to JSON schemas before they become grammars.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/json.h"
#include "grammar/work.h"

namespace weir::grammar {

// What is no schema: kInvalidArgument.
Error invalid_schema(std::string message);

// Keywords that say nothing about which values are valid, such as title and default.
bool is_annotation(std::string_view keyword);

// Whether every value satisfies it.
bool says_nothing(const Json& schema);

// What it costs to copy a value.
int64_t copy_cost(const Json& value);

// A keyword's value, null when it is missing or `schema` is no object.
const Json* keyword(const Json& schema, const char* name);

// What "#/$defs/Name" or another pointer into `root` refers to; null when there is nothing.
const Json* find_definition(const Json& root, std::string_view reference);

// A schema of the values that satisfy both. `where` names them in errors. Error: kUnsupported, with the
// keyword that cannot be merged.
Result<Json> merged_schema(const Json& a, const Json& b, const std::string& where, Work& work);

// No value satisfies both, as far as types, constants and properties with constants tell. References are
// followed in `root`.
bool disjoint(const Json& root, const Json& a, const Json& b, int depth = 0);

// Whether a value is of the type that JSON Schema calls so; 1.0 is an integer.
bool is_of_type(const Json& value, std::string_view type);

}  // namespace weir::grammar
