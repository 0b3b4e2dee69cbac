// What lies between the steps of a pass.
#pragma once

#include "base/result.h"
#include "kernels/steps.h"
#include "models/pass_memory.h"
#include "models/qwen/config.h"

namespace weir::qwen {

// The results of one pass over T rows; each is overwritten layer by layer.
struct Pass {
  Rows x;           // [T, H] residual stream
  Rows qkv;         // [T, (2 heads + 2 kv_heads) head_dim] input projection of attention
  Rows attended;    // [T, heads head_dim]
  Rows qkvzba;      // [T, channels + value_heads (value_dim + 2)] input projection of DeltaNet; shares memory
                    // with qkv
  Rows recalled;    // [T, value_heads value_dim]; shares memory with attended
  Rows normed;      // [T, H]
  Routing routing;  // [T, top_k + 1]
  Rows activated;   // [T (top_k + 1), I]
  Rows logits;      // [wanted, V]
};

// Memory for passes of up to `max_rows` rows and `max_wanted` rows of logits.
class Workspace {
 public:
  // Also reserves the backend's own scratch. Error: kOutOfMemory.
  static Result<Workspace> make(Steps& steps, const Config& config, int64_t max_rows, int64_t max_wanted);

  Pass pass(int64_t rows, int64_t wanted) const;

  int64_t max_rows() const { return largest_.x.rows; }
  int64_t max_wanted() const { return largest_.logits.rows; }

 private:
  PassMemory memory_;
  Pass largest_;
};

}  // namespace weir::qwen
