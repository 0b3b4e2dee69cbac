// Reports as JSON on stdout.
#pragma once

#include <nlohmann/json.hpp>

namespace weir::cli {

// Keeps the order in which fields are added.
using Report = nlohmann::ordered_json;

// Prints the report, one object in one line or spread over several, and returns an exit code. Bytes that are
// not UTF-8 are replaced by U+FFFD.
int print_json(const Report& report, bool spread = true);

}  // namespace weir::cli
