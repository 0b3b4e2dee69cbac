// Memory for weights, states and scratch.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "kernels/memory.h"

namespace weir::cpu {

// Zeroed pages straight from the system, so that nothing is touched before it is used: a page lands on the
// node of the thread that writes it first, and what is never used costs nothing. From 4 MiB on it starts at a
// 2 MiB boundary and asks for huge pages, which save the translation misses of streaming. Aligned to at least
// a cache line. Error: kOutOfMemory, with the size asked for.
Result<Buffer> allocate_pages(size_t bytes);

}  // namespace weir::cpu
