// The inner loops of the CPU's Gated DeltaNet. One source, compiled once for each instruction set; all give
// the same bits.
#pragma once

#include <cstdint>

namespace weir::cpu {

// The convolution's input as one segment sees it: row r >= 0 lies in the batch, row -1 is the youngest of the
// `kept` = taps - 1 rows carried over from earlier calls.
struct ConvInput {
  const float* rows = nullptr;     // [segment rows, row_stride]
  int64_t row_stride = 0;          // elements
  const float* carried = nullptr;  // [kept, channels], oldest first
  int64_t kept = 0;
  int64_t channels = 0;
};

inline constexpr int64_t kColumns = 32;

// One value head and its tokens.
struct Recurrence {
  float* state = nullptr;        // [key_dim, value_dim], updated
  const float* q = nullptr;      // [tokens, key_dim]
  const float* k = nullptr;      // [tokens, key_dim]
  const float* v = nullptr;      // [tokens, value_dim]
  const float* decay = nullptr;  // [tokens], e^g
  const float* beta = nullptr;   // [tokens]
  float* out = nullptr;          // [tokens, value_dim], rows out_stride apart
  int64_t out_stride = 0;        // elements
  int64_t tokens = 0;
  int64_t key_dim = 0, value_dim = 0;  // multiples of 4 and 16
  float* columns = nullptr;            // scratch [key_dim, kColumns]
};

struct DeltaKernels {
  // out[width] = silu(sum over j of taps[j] * input row (row - kept + j)), for the channels from `channel`
  // on; oldest tap first, one fma each. taps [kept + 1, channels].
  void (*convolve)(float* out, const ConvInput& in, const float* taps, int64_t row, int64_t channel,
                   int64_t width);

  // x *= rsqrt(sum(x^2) + 1e-6) * scale, in place. The squares are summed in 16 lanes.
  void (*normalise)(float* x, float scale, int64_t dim);

  // In place, a[i] becomes e^(-decay * softplus(a[i] + dt_bias)) and b[i] becomes sigmoid(b[i]).
  void (*gates)(float* a, float* b, float decay, float dt_bias, int64_t count);

  // For each token: S = decay S;  S += k (beta (v - S^T k))^T;  out = S^T q. Sums over the rows of S run
  // separately for rows 0, 1, 2 and 3 mod 4, one fma each, and are added at the end; S^T k is taken before
  // the decay, which then multiplies the sum.
  void (*recur)(const Recurrence& r);

  // out = out * rsqrt(mean(out^2) + epsilon) * gain * silu(z), in place.
  void (*norm_gate)(float* out, const float* z, const float* gain, float epsilon, int64_t dim);
};

}  // namespace weir::cpu
