// What tells the weights of one model folder from those of another.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::cli {

// Names, sizes and times of change of the folder's weights, its configuration and its tokenizer: states that
// were stored under one identity belong to no other. A copy that keeps the times has the same. Error:
// kNotFound when the folder cannot be read.
Result<std::string> model_identity(const std::string& folder);

}  // namespace weir::cli
