// What every error of a library folder must be: one line that names the culprits.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::testing {

template <class T>
void expect_error(const Result<T>& result, Code code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(result.ok());
  const Error& error = result.error();
  EXPECT_EQ(error.code, code) << error.message;
  for (const std::string& part : parts) {
    EXPECT_NE(error.message.find(part), std::string::npos) << "'" << part << "' is not in: " << error.message;
  }
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
}

}  // namespace weir::testing
