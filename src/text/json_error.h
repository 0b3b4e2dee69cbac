// simdjson's error codes as weir's errors.
#pragma once

#include <simdjson.h>

#include <string>
#include <utility>

#include "base/result.h"
#include "text/quote.h"

namespace weir::text {

inline Error corrupt(std::string message) {
  return {Code::kCorrupt, std::move(message), ""};
}

// `where` is the path of the value that was being read.
inline Error json_error(simdjson::error_code code, std::string_view where) {
  const std::string at = where.empty() ? "" : " at " + in_quotes(where);
  if (code == simdjson::INCORRECT_TYPE || code == simdjson::NUMBER_ERROR ||
      code == simdjson::NUMBER_OUT_OF_RANGE) {
    return corrupt("there is a value of the wrong type" + at);
  }
  return corrupt("it is not valid JSON" + at + ": " + simdjson::error_message(code));
}

}  // namespace weir::text

// Returns from this function with json_error() unless the simdjson call succeeded.
#define WEIR_JSON(expression, where)                                              \
  do {                                                                            \
    if (const auto weir_code = (expression)) return json_error(weir_code, where); \
  } while (0)
