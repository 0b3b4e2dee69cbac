// What an engine does that does not expand weights inside its products: a bf16 copy of quantised ones.
#pragma once

#include "kernels/cuda/kernels.h"

namespace weir::bench {

// `count` matrices like `w`, 4-bit, one after the other in memory, as tiles of TileKind::kBf16.
void expand_copy(cuda::LaunchQueue& queue, const cuda::TileMatrix& w, int64_t count, char* to);

}  // namespace weir::bench
