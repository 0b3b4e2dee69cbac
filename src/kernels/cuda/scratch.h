// Memory between kernels of one step, sized once by `reserve`.
#pragma once

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kernels.h"
#include "kernels/steps.h"

namespace weir::cuda {

inline constexpr int64_t kMaxKvHeads = 8;
inline constexpr int64_t kMaxSegments = 256;  // of one pass
inline constexpr int64_t kMaxChosen = 4096;   // tokens that one call chooses on the device

struct Scratch {
  static Result<Scratch> make(LaunchQueue& queue, const Limits& limits);

  Buffer normed;         // bf16 [T, H]
  Buffer router_logits;  // float32 [T, experts]
  Buffer counts, order, tiles, tile_count;
  int64_t max_tiles = 0;
  Buffer contributions;  // bf16 [T * slots, H]
  Buffer queries;        // bf16 [T, widest]
  Buffer convolved;      // bf16 [T, widest]
  Buffer gates;          // float32 [T, value heads, 2]
  Buffer factors;        // ChunkFactors [chunks, value heads]
  Buffer partial;        // float32, of split attention
  Buffer tickets;        // zero between kernels: attention [8, kMaxKvHeads], greedy
  Buffer best, best_id;  // of the greedy choice
  Buffer chosen;         // [kMaxChosen], then the step count

  int32_t* attention_tickets() const { return static_cast<int32_t*>(tickets.data()); }
  int32_t* greedy_ticket() const { return attention_tickets() + 8 * kMaxKvHeads; }
};

}  // namespace weir::cuda
