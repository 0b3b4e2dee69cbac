// What the draft head needs between passes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/steps.h"
#include "models/pass_memory.h"
#include "models/qwen/config.h"

namespace weir::qwen {

struct DraftRows {
  // Errors: kOutOfMemory; kUnsupported for a backend that has no norm by itself or other activations than
  // float32.
  static Result<DraftRows> make(Steps& steps, const Config& config, int64_t max_rows);

  PassMemory memory;
  Rows hidden;                // [rows of the last run, H] float32, after the final norm
  Rows chained;               // [1, H] float32: y of the last pair
  std::vector<float> logits;  // [V], of the last pair
};

}  // namespace weir::qwen
