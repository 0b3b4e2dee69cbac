// What lies between the steps of a pass.
#pragma once

#include "base/result.h"
#include "kernels/diffusion_steps.h"
#include "models/diffusion_gemma/config.h"
#include "models/pass_memory.h"

namespace weir::diffusion_gemma {

// The results of one pass over T rows; each is overwritten layer by layer.
struct Pass {
  int64_t first_row = 0;    // of the batch
  int64_t causal_rows = 0;  // of T; canvas rows follow
  Rows x;                   // [T, H] residual stream
  Rows projected_sliding;   // [T, in.rows] input projection of attention
  Rows projected_full;      // the same of full layers; shares memory with projected_sliding
  Rows mixed_sliding;       // [T, heads head_dim]
  Rows mixed_full;          // shares memory with mixed_sliding
  Rows gated;               // [T, F]
  Rows dense;               // [T, H] result of the dense MLP
  Routing routing;          // [T, top_k]
  Rows normed;              // [T, H] input of the experts
  Rows activated;           // [T top_k, I]
  Rows routed;              // [T, H] result of the experts
  Rows soft;                // [T, H] expected embeddings of canvas rows; shares memory with routed
  Belief* beliefs = nullptr;

  // The rows of the batch from `row` on; `row` counts from this pass's first row.
  Pass from(int64_t row) const;
};

// Memory for passes of up to `max_rows` rows.
class Workspace {
 public:
  // Also reserves the backend's own scratch. Error: kOutOfMemory.
  static Result<Workspace> make(Steps& steps, const Config& config, int64_t max_rows);

  Pass pass(int64_t rows, int64_t causal_rows) const;
  int64_t max_rows() const { return largest_.x.rows; }

 private:
  PassMemory memory_;
  Pass largest_;
};

}  // namespace weir::diffusion_gemma
