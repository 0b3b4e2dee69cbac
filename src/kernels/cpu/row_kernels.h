// Work on one row of activations: norms, rounding to int8, gates. One source, compiled once for each
// instruction set; all give the same bits. These steps move a few kilobytes a row and are never the bound.
#pragma once

#include <cstdint>

namespace weir::cpu {

struct RowKernels {
  // out = x * s * gain, s = 1 / sqrt(mean(x^2) + epsilon); the squares are summed in 16 lanes by fma, then in
  // a tree. Relative error of s: below (count / 16 + 8) 2^-25, as the terms have one sign.
  void (*rms_norm)(float* out, const float* x, const float* gain, float epsilon, int64_t count);

  // For each group of `group` (a multiple of 16) elements: scale = max|x| / 127, q = x / scale rounded to
  // even, so |x - scale q| <= scale / 2 (1 + 2^-20), and sum = scale * (sum of q), rounded once. A group
  // below 1e-30 counts as zero; NaN or infinity give scale and sum NaN, so that the products show it.
  void (*quantize)(int8_t* q, float* scale, float* sum, const float* x, int64_t group, int64_t count);

  // sum[g] = sum of the group's elements: 16 lanes, then a tree.
  void (*group_sums)(float* sum, const float* x, int64_t group, int64_t count);

  // x = (x + RMSNorm(y; gain)) * scale, the norm as above.
  void (*norm_add)(float* x, const float* y, const float* gain, float epsilon, float scale, int64_t count);

  // out = silu(gate) * up, and out = gelu(gate) * up with the tanh approximation. `out` may be one of them.
  void (*silu_multiply)(float* out, const float* gate, const float* up, int64_t count);
  void (*gelu_multiply)(float* out, const float* gate, const float* up, int64_t count);

  // x[c] += sum over s of weights[s] * y[s * stride + c], slot after slot by fma from 0, then one addition.
  void (*add_weighted)(float* x, const float* weights, const float* y, int64_t stride, int64_t slots,
                       int64_t count);

  // The top_k largest of `experts` logits, largest first, ties to the lower id; their softmax weights,
  // normalised to sum 1. Softmax is monotone, so the logits decide. ids and weights hold top_k.
  void (*route)(int32_t* ids, float* weights, const float* logits, int64_t experts, int64_t top_k);

  // 1 / (1 + e^-x).
  float (*sigmoid)(float x);
};

}  // namespace weir::cpu
