// Memory for weights, states and scratch.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "kernels/memory.h"

namespace weir::cpu {

// Zeroed pages straight from the system, so that nothing is touched before it is used: a page lands on the
// node of the thread that writes it first, and what is never used costs nothing. From 64 KiB on it lies in 2
// MiB pages, if the system has them, which save the translation misses of streaming: blocks of up to 1 MiB
// share one with others of their size, larger ones have all of theirs. Aligned to at least a cache line.
// Error: kOutOfMemory, with the size asked for.
Result<Buffer> allocate_pages(size_t bytes);

}  // namespace weir::cpu
