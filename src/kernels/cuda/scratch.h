// Memory between kernels of one step, sized once by `reserve`.
#pragma once

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kernels.h"
#include "kernels/steps.h"

namespace weir::cuda {

inline constexpr int64_t kMaxKvHeads = 8;
inline constexpr int64_t kMaxSegments = 256;  // of one pass

struct Scratch {
  static Result<Scratch> make(LaunchQueue& queue, const Limits& limits);

  Buffer normed;         // bf16 [T, H]
  Buffer staged;         // few rows as one step hands them on to the next
  Buffer router_logits;  // float32 [T, experts]
  Buffer counts, order, tiles, tile_count;
  Buffer contributions;  // bf16 [T * slots, H]
  Buffer queries;        // bf16 [T, widest]
  Buffer convolved;      // bf16 [T, widest]
  Buffer gates;          // float32 [T, value heads, 2]
  Buffer factors;        // ChunkFactors [chunks, value heads]
  Buffer partial;        // float32, of split attention
  Buffer tickets;        // zero between kernels: attention [8, kMaxKvHeads]
  Buffer choice;         // ChoiceState of the chooser that was used last

  int32_t* attention_tickets() const { return static_cast<int32_t*>(tickets.data()); }
};

}  // namespace weir::cuda
