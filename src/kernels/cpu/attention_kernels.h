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

// The positions [begin, end) of a page that a row sees; not empty.
struct Visible {
  int64_t begin = 0;
  int64_t end = 0;
};

// The rotation of one position: elements (i, i + distance) of a head turn by the angle of pair i.
struct Rotation {
  const float* cosines = nullptr;  // [pairs]
  const float* sines = nullptr;    // [pairs]
  int64_t pairs = 0;
  int64_t distance = 0;
};

struct AttentionKernels {
  // out[dim] = x * rsqrt(mean(x^2) + epsilon) * gain, rotated, times `scale`; without a gain where it is
  // null. The squares are summed in 16 lanes.
  void (*norm_rotate)(float* out, const float* x, const float* gain, float epsilon, const Rotation& rotation,
                      float scale, int64_t dim);

  // The partials of the visible positions of a page, for `rows` rows of `group` queries each: visible [rows],
  // q [rows, group, dim] with the softmax's scale in it. `scores` is scratch of [rows, group,
  // kPagePositions]. Dot products run down the dims, value sums along the positions, one fma each; the sum of
  // exponentials runs in 16 lanes. Rows that see different positions share the loop over all of them, with
  // weights of 0 where they do not see: that changes no bit of a sum of finite values.
  //
  // Per position and query 2 dim multiply-adds. A tile of Q queries needs, for 16 numbers of a page, 2
  // operations to expand them and Q multiply-adds: Q / (Q + 2) of the rate of the multiply-adds.
  void (*attend_page)(const Partial& out, const float* q, const HeadPage& page, const Visible* visible,
                      int64_t rows, int64_t group, int64_t dim, float* scores);

  // One query: (max, sum, values) of `total` become those of its positions and `next`'s together.
  void (*merge)(const Partial& total, const Partial& next, int64_t dim);

  // One query: out[dim] = values / sum * sigmoid(gate), without the gate where it is null.
  void (*finish)(float* out, const Partial& total, const float* gate, int64_t dim);
};

}  // namespace weir::cpu
