#include "models/qwen/workspace.h"

#include <algorithm>

namespace weir::qwen {
namespace {

struct Widths {
  int64_t qkv, attended, qkvzba, recalled;
};

Widths widths_of(const Config& c) {
  const int64_t channels = 2 * c.key_heads * c.key_dim + c.value_heads * c.value_dim;
  return {2 * (c.heads + c.kv_heads) * c.head_dim, c.heads * c.head_dim,
          channels + c.value_heads * (c.value_dim + 2), c.value_heads * c.value_dim};
}

}  // namespace

Result<Workspace> Workspace::make(Steps& steps, const Config& config, int64_t max_rows, int64_t max_wanted) {
  const Widths w = widths_of(config);
  const int64_t projected = std::max(w.qkv, w.qkvzba), mixed = std::max(w.attended, w.recalled);
  const int64_t slots = config.top_k + 1;
  const Limits limits{.rows = max_rows,
                      .hidden = config.hidden,
                      .widest = std::max({projected, mixed, config.hidden}),
                      .vocabulary = config.vocabulary,
                      .slots = slots,
                      .experts = config.experts + 1,
                      .intermediate = config.intermediate};
  WEIR_RETURN_IF_ERROR(steps.reserve(limits));

  Workspace workspace;
  const auto rows_of = [&](int64_t rows, int64_t cols, Dtype dtype) {
    return workspace.memory_.rows(steps, rows, cols, dtype);
  };
  Pass& p = workspace.largest_;
  const Dtype activation = steps.activation_dtype();
  WEIR_TRY(p.x, rows_of(max_rows, config.hidden, Dtype::kF32));
  WEIR_TRY(const Rows in, rows_of(max_rows, projected, activation));
  WEIR_TRY(const Rows out, rows_of(max_rows, mixed, activation));
  p.qkv = in.shaped(max_rows, w.qkv);
  p.qkvzba = in.shaped(max_rows, w.qkvzba);
  p.attended = out.shaped(max_rows, w.attended);
  p.recalled = out.shaped(max_rows, w.recalled);
  WEIR_TRY(p.normed, rows_of(max_rows, config.hidden, activation));
  WEIR_TRY(p.activated, rows_of(max_rows * slots, config.intermediate, activation));
  WEIR_TRY(p.logits, rows_of(max_wanted, config.vocabulary, Dtype::kF32));
  WEIR_TRY(const Rows experts, rows_of(max_rows, slots, Dtype::kI32));
  WEIR_TRY(const Rows weights, rows_of(max_rows, slots, Dtype::kF32));
  p.routing = {static_cast<int32_t*>(experts.data), weights.floats(), max_rows, slots};
  return workspace;
}

Pass Workspace::pass(int64_t rows, int64_t wanted) const {
  Pass p = largest_;
  for (Rows* r : {&p.x, &p.qkv, &p.attended, &p.qkvzba, &p.recalled, &p.normed}) *r = r->first(rows);
  p.routing.rows = rows;
  p.activated = p.activated.first(rows * p.routing.slots);
  p.logits = p.logits.first(wanted);
  return p;
}

}  // namespace weir::qwen
