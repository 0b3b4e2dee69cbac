// DiffusionSteps::attend of the CPU: causal rows with a sliding window, and canvases over a fixed rectangle.
//
// First every row is prepared: its keys and values go to their pages, rounded to bfloat16, and its queries
// are normed and rotated; all else is float32. Then tiles of neighbouring rows and one KV head each walk the
// pages that they see, a page for all queries of the tile at once, and merge the partial softmaxes in page
// order, a canvas's own page last. A tile belongs to one thread. Where tiles are cut changes no bit: a row's
// sums run over the positions that it sees, grouped by page.
//
// Per query and visible position 4 head_dim operations, at Q / (Q + 2) of the rate of the multiply-adds
// (attention_kernels.h). A canvas of 256 rows, 16 heads of 256 and 1023 + 256 positions takes 5.4 GFLOP: with
// tiles of 12 queries 28 ms at least on one core that does 222 GFLOP/s; measured 35 ms, a tenth of it for
// preparing.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/steps.h"

namespace weir::cpu {

// Scratch that `attend_window` needs for any layer whose input fits limits.widest.
size_t window_scratch_bytes(const Limits& limits, int threads);

// DiffusionSteps::attend. head_dim is a multiple of 16, heads one of kv_heads; a page has the bytes of
// page_bytes (kv_page.h); `scratch` is aligned to a cache line.
void attend_window(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
                   int64_t index, bool canvas_only, const AttentionKernels& kernels, ThreadPool& pool,
                   void* scratch);

}  // namespace weir::cpu
