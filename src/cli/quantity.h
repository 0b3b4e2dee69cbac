// Counts and sizes as people write them: "4096", "32k", "8GiB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::cli {

// A whole number with an optional unit. k, m, g are powers of 1000; K, M, G and Ki, Mi, Gi powers of 1024;
// with a B behind them, KB, MB, GB are powers of 1000. Errors: kInvalidArgument.
Result<int64_t> parse_quantity(std::string_view text);

std::string size_text(uint64_t bytes);      // "10.2 MiB"
std::string count_text(uint64_t count);     // "18.8 M"
std::string duration_text(double seconds);  // "2:05", "1:02:05"

}  // namespace weir::cli
