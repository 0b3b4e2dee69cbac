// attend and delta_rule of the reference.
#pragma once

#include "kernels/reference/reference_steps.h"
#include "kernels/steps.h"

namespace weir::reference {

// A page holds float32 keys [kKvPage, kv_heads, head_dim], then values of the same shape.
size_t kv_page_bytes(const AttentionWeights& w);

void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const StageProbe& probe);

void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch, int64_t index,
                const StageProbe& probe);

}  // namespace weir::reference
