// The kernels of delta_rule for many rows share their parameters.
#pragma once

#include "kernels/cuda/delta_chunk.h"
#include "kernels/cuda/kernels.h"

namespace weir::cuda {

struct DeltaManyParams {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  const float* conv;
  const float* decay;
  const float* dt_bias;
  const float* norm;
  __nv_bfloat16* convolved;  // [T, channels]: q and k normalised, q scaled
  float2* gates;             // [T, value_heads]: log decay, beta
  ChunkFactors* factors;     // [chunks, value_heads]
  int32_t key_heads;
  int32_t value_heads;
  int32_t layer;
  float epsilon;

  constexpr int keys() const { return key_heads * kDeltaDim; }
  constexpr int channels() const { return (2 * key_heads + value_heads) * kDeltaDim; }
  constexpr int width() const { return channels() + value_heads * (kDeltaDim + 2); }
};

void delta_chunks(LaunchQueue& queue, const DeltaManyParams& p, int64_t max_segment_rows);
void delta_scan(LaunchQueue& queue, const DeltaManyParams& p);

}  // namespace weir::cuda
