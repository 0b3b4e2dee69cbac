// The inner loops of the CPU's attention. One source, compiled once for each instruction set; all give the
// same bits.
#pragma once

#include <cstdint>

namespace weir::cpu {

inline constexpr int64_t kPagePositions = 256;  // kKvPage, whose header these sources may not include

// What a page of one KV head looks like, in bfloat16 with P = kPagePositions and D = head_dim:
//   keys   [P / 16][D][16 positions]: 16 scores come from one pass down the dims, each key element read once
//   values [D / 16][P][16 dims]: a sum over positions reads consecutive memory
// A page of all heads holds them one after the other.
struct HeadPage {
  const uint16_t* keys = nullptr;
  const uint16_t* values = nullptr;
};

// Softmax and sum over one run of positions for `group` queries: max of the scores, sum of e^(score - max),
// and the values weighted with these exponentials.
struct Partial {
  float* max = nullptr;     // [group]
  float* sum = nullptr;     // [group]
  float* values = nullptr;  // [group, head_dim]
};

// The rotation of one position: elements (i, i + half) of a head turn by the angle of pair i.
struct Rotation {
  const float* cosines = nullptr;  // [half]
  const float* sines = nullptr;    // [half]
  int64_t half = 0;
};

struct AttentionKernels {
  // out[dim] = x * rsqrt(mean(x^2) + epsilon) * gain, rotated, times `scale`. The squares are summed in 16
  // lanes.
  void (*norm_rotate)(float* out, const float* x, const float* gain, float epsilon, const Rotation& rotation,
                      float scale, int64_t dim);

  // The partial of positions [0, count) of a page. q [group, dim] with the softmax's scale in it. `scores`
  // is scratch of [group, kPagePositions]. Dot products run down the dims, value sums along the positions,
  // one fma each; the sum of exponentials runs in 16 lanes.
  void (*attend_page)(const Partial& out, const float* q, const HeadPage& page, int64_t count, int64_t group,
                      int64_t dim, float* scores);

  // One query: (max, sum, values) of `total` become those of its positions and `next`'s together.
  void (*merge)(const Partial& total, const Partial& next, int64_t dim);

  // One query: out[dim] = values / sum * sigmoid(gate).
  void (*finish)(float* out, const Partial& total, const float* gate, int64_t dim);
};

}  // namespace weir::cpu
