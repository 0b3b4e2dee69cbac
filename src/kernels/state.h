// What a sequence leaves behind for its next token: keys and values, recurrent states, the convolution's last
// columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/memory.h"

namespace weir {

// Positions held by one page of keys and values. A multiple of the attention's block of keys, so that the
// order of its sums depends on positions alone.
inline constexpr int64_t kKvPage = 256;

// Keys (after norm and rotation) and values of one attention layer. What a page looks like inside is its
// backend's affair.
struct KvCache {
  std::vector<Buffer> pages;
};

// State of one Gated DeltaNet layer, float32 in every backend.
struct DeltaState {
  Buffer recurrent;  // [value_heads, key_dim, value_dim]
  Buffer conv;       // [taps - 1, channels], inputs of the convolution, oldest first
};

// One sequence. `position` is the number of tokens that have passed through all layers.
struct SequenceState {
  int64_t position = 0;
  std::vector<KvCache> kv;        // one for each attention layer
  std::vector<DeltaState> delta;  // one for each DeltaNet layer
};

// Consecutive rows of a batch that continue one sequence: rows [first_row, first_row + rows) are its
// positions [state->position, state->position + rows). The caller has reserved their pages and advances
// `position` afterwards.
struct Segment {
  SequenceState* state = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
};

// One pass through the model. Rows of a sequence are consecutive, and a sequence occurs once.
struct Batch {
  std::span<const int32_t> tokens;    // [T]
  std::span<const Segment> segments;  // cover all T rows
  std::span<const int32_t> wanted;    // rows whose logits are asked for, ascending
};

}  // namespace weir
