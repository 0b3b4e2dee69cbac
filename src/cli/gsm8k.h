// Word problems in the format of GSM8K: one JSON object a line, {"question": ..., "answer": "... #### 72"}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::cli {

struct Problem {
  std::string question;
  std::string expected;  // the number behind ####, as normal_number writes it
  std::string answer;    // as the file has it
};

struct ProblemSet {
  std::vector<Problem> problems;
  uint64_t hash = 0;  // of the file's bytes (FNV-1a, 64 bits)
};

// Errors: kNotFound, kCorrupt naming file and line.
Result<ProblemSet> read_problems(const std::string& path);

// The number behind the last "####" of an answer, or else the last number in it; nothing if there is none.
// Digits may be grouped by commas, as in "1,234.50".
std::optional<std::string> final_number(std::string_view answer);

// A number without commas, leading zeros, a fraction of zeros only, or a negative zero: equal numbers have
// equal text.
std::string normal_number(std::string_view digits);

}  // namespace weir::cli
