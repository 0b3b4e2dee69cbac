// Kernels that lay out weights (tile_matrix.h).
#pragma once

#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/raw_matrix.h"
#include "kernels/cuda/tile_matrix.h"

namespace weir::cuda {

// Writes the rows of `source` to rows [first_row, ...) of `to`, whose memory is zeroed before.
void repack_rows(LaunchQueue& queue, const TileMatrix& to, int64_t first_row, const RawMatrix& source);

// Writes an expert's gate and up, both [I, H], to `to`, [2 I, H]: tile by tile 8 gates, then their 8 ups.
void repack_gate_up(LaunchQueue& queue, const TileMatrix& to, const RawMatrix& gate, const RawMatrix& up);

}  // namespace weir::cuda
