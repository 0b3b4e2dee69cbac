// What a sequence leaves behind for its next token: keys and values, recurrent states, the convolution's last
// columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/memory.h"
#include "kernels/token_chooser.h"

namespace weir {

// Positions held by one page of keys and values. A multiple of the attention's block of keys, so that the
// order of its sums depends on positions alone.
inline constexpr int64_t kKvPage = 256;

// Keys (after norm and rotation) and values of one attention layer. What a page looks like inside is its
// backend's affair. Sequences with a common beginning share its pages: what a position holds never changes,
// so only the page that a sequence is about to append to must be its own (models/kv_pages.h copies it then).
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
  // If set, the batch has one row, whose token is the one that this chose last; tokens[0] is not read.
  const TokenChooser* chosen = nullptr;
};

// A block of C positions that is being denoised (C <= kKvPage). A position keeps what it had in the last pass
// that it took part in, so a pass may forward only some of them.
struct CanvasState {
  std::vector<KvCache> kv;  // one for each layer: one page, whose position i is position i of the canvas
  Buffer soft;              // [C, H] float32: embedding expected at each position; zero before the first pass
};

// Consecutive rows of a batch that are positions of one canvas. `slots` are these positions, ascending; slot
// i stands at position committed + i of the sequence and sees `committed` tokens, which include those that
// causal rows of the same batch append.
struct CanvasSegment {
  SequenceState* state = nullptr;
  CanvasState* canvas = nullptr;
  int64_t committed = 0;
  int64_t length = 0;  // C
  int64_t first_row = 0;
  std::span<const int32_t> slots;
};

// Whole vocabularies and most tokens that an expected embedding is made of.
inline constexpr int32_t kAllTokens = -1;
inline constexpr int32_t kMaxSoftTokens = 256;

// A row whose distribution over the vocabulary is asked for.
struct Inquiry {
  int32_t row = 0;
  float temperature = 1;  // > 0
  DrawKey draw;           // of its sample; the head sets `purpose`
  // The expected embedding of a canvas row is made of this many tokens, the most probable ones (ties to the
  // lower id) with their probabilities as they are. 0: it is left as it was.
  int32_t soft_tokens = kAllTokens;
};

// A pass of a diffusion model: causal rows, which `segments` cover, then rows of canvases.
struct CanvasBatch : Batch {
  std::span<const CanvasSegment> canvases;
  std::span<const Inquiry> inquiries;  // rows ascending
  // False when no canvas has had a pass yet: all expected embeddings are zero, and self-conditioning would
  // add exactly nothing.
  bool conditioned = true;

  int64_t causal_rows() const {
    return canvases.empty() ? static_cast<int64_t>(tokens.size()) : canvases.front().first_row;
  }
};

}  // namespace weir
