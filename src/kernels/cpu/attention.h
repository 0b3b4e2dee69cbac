// attend of the CPU: who computes which part of it, and where keys, values and partial results lie.
//
// Positions are taken a page at a time. A page gives each row a partial softmax and sum, and partials are
// merged in page order, whatever the number of rows or threads: the bits depend on positions alone. Keys and
// values are rounded to bfloat16 when they are appended; all else is float32.
//
// A decoded token reads the 4 * kv_heads * head_dim bytes of each position of its context once, for all query
// heads of a KV head together; that is its floor. At 20 GB/s, 2 x 256 and 32K positions it is 3.4 ms a layer.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/steps.h"

namespace weir::cpu {

// bfloat16 keys and values of kKvPage positions, laid out as attention_kernels.h says.
size_t kv_page_bytes(const AttentionWeights& w);

// Scratch that `attend` needs for any layer whose input fits limits.widest.
size_t attention_scratch_bytes(const Limits& limits, int threads);

// Steps::attend. head_dim is a multiple of 16, heads one of kv_heads; `scratch` is aligned to a cache line.
void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const AttentionKernels& kernels, ThreadPool& pool, void* scratch);

}  // namespace weir::cpu
