// What delta_chunk.cu computes about 16 rows for delta_scan.cu.
//
// With g the log decays of the rows, G their running sums, k and q normalised:
//   A[i, j] = beta_i (k_i k_j) exp(G_i - G_j) for j < i;  solve = (1 + A)^-1 diag(beta)
//   mix[i, j] = (q_i k_j) exp(G_i - G_j) for j <= i
// so that with S the state before the rows
//   N = solve (V - diag(exp G) K S);  O = diag(exp G) Q S + mix N;  S = exp(G_15) S + K^T diag(exp(G_15 - G))
//   N
// (the chunked form of the gated delta rule: Yang et al., "Gated Delta Networks", 2024). Rows that are
// missing at a segment's end have k = q = v = 0, beta = 0 and g = 0, which leaves the state alone.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace weir::cuda {

inline constexpr int kChunkRows = 16;

struct ChunkFactors {
  __nv_bfloat16 solve[kChunkRows * kChunkRows];
  __nv_bfloat16 mix[kChunkRows * kChunkRows];
  float decay[kChunkRows];  // exp G
  float rest[kChunkRows];   // exp(G_15 - G)
};
static_assert(sizeof(ChunkFactors) % 16 == 0);

// Chunks of segment s are numbered from here; segments do not overlap, since n rows have at most n / 16 + 1.
constexpr int first_chunk(int first_row, int segment) {
  return first_row / kChunkRows + segment;
}

}  // namespace weir::cuda
