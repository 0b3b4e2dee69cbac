// Text from stdin.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::cli {

// All of stdin, at most 256 MiB. Errors: kInvalidArgument.
Result<std::string> read_standard_input();

// `text`, or all of stdin where it is "-".
Result<std::string> text_or_input(const std::string& text);

}  // namespace weir::cli
