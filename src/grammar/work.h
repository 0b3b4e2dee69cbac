// A bound on what a schema from outside may cost to compile.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace weir::grammar {

// Units are states and edges that are made, some 200 ns and 100 bytes each. Once they are spent they stay so:
// whoever builds goes on without growing, and the end of the build reports it.
class Work {
 public:
  explicit Work(int64_t units = int64_t{1} << 21) : left_(units) {}

  bool spend(int64_t units = 1) {
    left_ = left_ < units ? -1 : left_ - units;
    return left_ >= 0;
  }
  bool exhausted() const { return left_ < 0; }

  // kInvalidArgument once exhausted.
  Status status() const {
    if (!exhausted()) return Ok{};
    return Error{Code::kInvalidArgument, "the schema is too large, or its patterns and bounds multiply",
                 "fewer properties, shorter patterns, or no length beside a pattern"};
  }

 private:
  int64_t left_;
};

}  // namespace weir::grammar
