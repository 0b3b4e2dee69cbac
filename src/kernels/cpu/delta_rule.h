// delta_rule of the CPU: value heads are divided over threads, and a head goes through all tokens before the
// next one, a block at a time, so that its state stays in the cache.
//
// Everything is float32. A decoded token reads and writes the state once: 8 * value_heads * key_dim *
// value_dim bytes, its floor.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/cpu/delta_rule_kernels.h"
#include "kernels/steps.h"

namespace weir::cpu {

// Scratch that `delta_rule` needs for any layer whose input fits limits.widest.
size_t delta_rule_scratch_bytes(const Limits& limits, int threads);

// Steps::delta_rule. key_dim and value_dim are multiples of 16, value_heads one of key_heads; `scratch` is
// aligned to a cache line.
void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch, int64_t index,
                const DeltaKernels& kernels, ThreadPool& pool, void* scratch);

}  // namespace weir::cpu
