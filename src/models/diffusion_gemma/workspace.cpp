#include "models/diffusion_gemma/workspace.h"

#include <algorithm>

namespace weir::diffusion_gemma {
namespace {

int64_t projected_cols(const Config& c, const AttentionShape& shape) {
  return (c.heads + (shape.values_are_keys ? 1 : 2) * shape.kv_heads) * shape.head_dim;
}

Limits limits_of(const Config& c, int64_t max_rows, int64_t projected, int64_t mixed) {
  return {.rows = max_rows,
          .hidden = c.hidden,
          .widest = std::max({projected, mixed, c.hidden, 2 * c.dense}),
          .vocabulary = c.vocabulary,
          .slots = c.top_k,
          .experts = c.experts,
          .intermediate = c.intermediate};
}

}  // namespace

Pass Pass::from(int64_t row) const {
  Pass p = *this;
  p.first_row += row;
  p.causal_rows = std::max<int64_t>(0, causal_rows - row);
  for (Rows* r : {&p.x, &p.projected_sliding, &p.projected_full, &p.mixed_sliding, &p.mixed_full, &p.gated,
                  &p.dense, &p.normed, &p.routed}) {
    *r = r->from(row);
  }
  p.activated = p.activated.from(row * routing.slots);
  p.routing = routing.from(row);
  return p;
}

Result<Workspace> Workspace::make(Steps& steps, const Config& c, int64_t max_rows) {
  const int64_t projected = std::max(projected_cols(c, c.sliding), projected_cols(c, c.full));
  const int64_t mixed = c.heads * std::max(c.sliding.head_dim, c.full.head_dim);
  const Limits limits = limits_of(c, max_rows, projected, mixed);
  WEIR_RETURN_IF_ERROR(steps.reserve(limits));
  WEIR_RETURN_IF_ERROR(steps.diffusion()->reserve(limits));

  Workspace workspace;
  const auto rows_of = [&](int64_t rows, int64_t cols, Dtype dtype) {
    return workspace.memory_.rows(steps, rows, cols, dtype);
  };
  Pass& p = workspace.largest_;
  const Dtype activation = steps.activation_dtype();
  WEIR_TRY(p.x, rows_of(max_rows, c.hidden, Dtype::kF32));
  WEIR_TRY(const Rows in, rows_of(max_rows, projected, activation));
  WEIR_TRY(const Rows out, rows_of(max_rows, mixed, activation));
  p.projected_sliding = in.shaped(max_rows, projected_cols(c, c.sliding));
  p.projected_full = in.shaped(max_rows, projected_cols(c, c.full));
  p.mixed_sliding = out.shaped(max_rows, c.heads * c.sliding.head_dim);
  p.mixed_full = out.shaped(max_rows, c.heads * c.full.head_dim);
  WEIR_TRY(p.gated, rows_of(max_rows, c.dense, activation));
  WEIR_TRY(p.dense, rows_of(max_rows, c.hidden, Dtype::kF32));
  WEIR_TRY(p.normed, rows_of(max_rows, c.hidden, activation));
  WEIR_TRY(p.activated, rows_of(max_rows * c.top_k, c.intermediate, activation));
  WEIR_TRY(p.routed, rows_of(max_rows, c.hidden, Dtype::kF32));
  WEIR_TRY(const Rows experts, rows_of(max_rows, c.top_k, Dtype::kI32));
  WEIR_TRY(const Rows weights, rows_of(max_rows, c.top_k, Dtype::kF32));
  p.routing = {static_cast<int32_t*>(experts.data), weights.floats(), max_rows, c.top_k};
  WEIR_TRY(void* beliefs, workspace.memory_.bytes(steps, static_cast<size_t>(max_rows) * sizeof(Belief)));
  p.beliefs = static_cast<Belief*>(beliefs);
  return workspace;
}

Pass Workspace::pass(int64_t rows, int64_t causal_rows) const {
  Pass p = largest_;
  p.causal_rows = causal_rows;
  for (Rows* r : {&p.x, &p.projected_sliding, &p.projected_full, &p.mixed_sliding, &p.mixed_full, &p.gated,
                  &p.dense, &p.normed, &p.routed}) {
    *r = r->first(rows);
  }
  p.soft = p.routed.first(rows - causal_rows);
  p.routing.rows = rows;
  p.activated = p.activated.first(rows * p.routing.slots);
  return p;
}

}  // namespace weir::diffusion_gemma
