// Reports as CSV.
#pragma once

#include <string>

#include "cli/json_report.h"

namespace weir::cli {

// Two columns, a line for each number or text of the report: where it stands and what it is, such as
// "decode/depth=4096/tokens_per_second/median,9.87". An object in an array goes by its first field.
std::string csv_report(const Report& report);

}  // namespace weir::cli
