// How fast this machine multiplies quantised weights with int8 activations when nothing waits for memory: the
// ceiling of prefill and of denoising.
#pragma once

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace weir::cli {

// GFLOP/s (a multiplication and an addition are two) of the product of a block of weights with a full tile of
// activations, both in the first-level cache, on all threads: the median of several runs, of 4 or of 8 bits,
// whichever is faster. Without VNNI 8 bits take twice the operations of 4.
double measure_int8_peak(ThreadPool& pool, Isa isa);

}  // namespace weir::cli
