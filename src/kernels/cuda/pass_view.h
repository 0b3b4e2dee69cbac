// What kernels know of the batch: arrays in GPU memory that `begin` fills, at addresses that stay the same
// from pass to pass, so that a recorded graph serves the next token.
#pragma once

#include <cstdint>

namespace weir::cuda {

struct SegmentInfo {
  int32_t first_row;
  int32_t rows;
  int32_t position;  // of the first row
  int32_t unused;
};

struct PassView {
  const int32_t* tokens = nullptr;      // [T]
  const int32_t* positions = nullptr;   // [T]
  const int32_t* segment_of = nullptr;  // [T]
  const int32_t* wanted = nullptr;      // rows whose logits are asked for
  const SegmentInfo* segments = nullptr;
  float* const* recurrent = nullptr;  // [segments, delta_layers]
  float* const* conv = nullptr;       // [segments, delta_layers]
  void* const* pages = nullptr;       // [segments, kv_layers, page_stride]
  int32_t segment_count = 0;
  int32_t delta_layers = 0;
  int32_t kv_layers = 0;
  int32_t page_stride = 0;
};

}  // namespace weir::cuda
