#include "kernels/cuda/scratch.h"

#include <algorithm>

#include "kernels/cuda/delta_chunk.h"

namespace weir::cuda {

Result<Scratch> Scratch::make(LaunchQueue& queue, const Limits& limits) {
  const auto rows = static_cast<size_t>(limits.rows), hidden = static_cast<size_t>(limits.hidden);
  const auto widest = static_cast<size_t>(limits.widest), experts = static_cast<size_t>(limits.experts);
  const size_t assignments = rows * static_cast<size_t>(limits.slots);
  const size_t partial = 8 * static_cast<size_t>(kMaxKvHeads) * kMaxSplits * kMaxGroup * (kHeadDim + 4);
  Scratch s;
  // Passes of fewer rows have tiles of fewer rows, and then less than one full tile an expert.
  const size_t tiles =
      static_cast<size_t>(expert_tiles(limits.rows * limits.slots, limits.experts)) + experts;
  WEIR_TRY(s.normed, allocate_device(queue, rows * hidden * 2));
  WEIR_TRY(s.staged, allocate_device(queue, kFewRows * staged_row_bytes(std::max(hidden, widest))));
  WEIR_TRY(s.router_logits, allocate_device(queue, rows * experts * 4));
  WEIR_TRY(s.counts, allocate_device(queue, experts * 4));
  WEIR_TRY(s.order, allocate_device(queue, assignments * 4));
  WEIR_TRY(s.tiles, allocate_device(queue, tiles * sizeof(ExpertTile)));
  WEIR_TRY(s.tile_count, allocate_device(queue, 4));
  WEIR_TRY(s.contributions, allocate_device(queue, assignments * hidden * 2));
  WEIR_TRY(s.queries, allocate_device(queue, rows * widest * 2));
  WEIR_TRY(s.convolved, allocate_device(queue, rows * widest * 2));
  // A value head takes at least 128 + 128 columns of a projection. A segment has at most one chunk that is
  // not full.
  const size_t value_heads = widest / (2 * kDeltaDim) + 1;
  WEIR_TRY(s.gates, allocate_device(queue, rows * value_heads * 8));
  WEIR_TRY(s.factors,
           allocate_device(queue, (rows / 16 + kMaxSegments + 1) * value_heads * sizeof(ChunkFactors)));
  WEIR_TRY(s.partial, allocate_device(queue, partial * 4));
  WEIR_TRY(s.tickets, allocate_device(queue, 8 * static_cast<size_t>(kMaxKvHeads) * 4));
  WEIR_TRY(s.choice, allocate_device(queue, sizeof(ChoiceState)));
  return s;
}

}  // namespace weir::cuda
