// How weir ends, and how it says what went wrong.
#pragma once

#include <string_view>

#include "base/result.h"

namespace weir::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kModelOrFile = 3;
inline constexpr int kDevice = 4;
inline constexpr int kInterrupted = 130;

int exit_code(Code code);

// Prints the error and its hint, or a usual one for its code, to stderr as one line each, and returns the
// exit code that belongs to it.
int report(const Error& error);

// Writes `text` to stdout. kDone, or kFailed with a message when stdout takes no more (a full disk).
int print_answer(std::string_view text);

}  // namespace weir::cli
