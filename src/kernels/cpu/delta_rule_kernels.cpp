#include "kernels/cpu/delta_rule_kernels.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// Columns of the state that go through all tokens together, in vectors: their sums stay in registers and
// their part of the state in the L1 cache. No influence on any bit.
#if defined(__AVX512F__)
constexpr int kStripe = 4;
#else
constexpr int kStripe = 2;
#endif

const float* source_row(const ConvInput& in, int64_t row) {
  return row >= 0 ? in.rows + row * in.row_stride : in.carried + (in.kept + row) * in.channels;
}

void convolve(float* out, const ConvInput& in, const float* taps, int64_t row, int64_t channel,
              int64_t width) {
  for (int64_t c = 0; c < width; c += kLanes) {
    F32x16 sum = set1(0.0f);
    for (int64_t j = 0; j <= in.kept; ++j) {
      const float* x = source_row(in, row - in.kept + j) + channel + c;
      sum = fma(load(taps + j * in.channels + channel + c), load(x), sum);
    }
    store(out + c, silu(sum));
  }
}

void normalise(float* x, float scale, int64_t dim) {
  F32x16 squares = set1(0.0f);
  for (int64_t d = 0; d < dim; d += kLanes) squares = fma(load(x + d), load(x + d), squares);
  const F32x16 factor = set1(scale / __builtin_sqrtf(reduce_add(squares) + 1e-6f));
  for (int64_t d = 0; d < dim; d += kLanes) store(x + d, load(x + d) * factor);
}

void gates(float* a, float* b, float decay, float dt_bias, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    const F32x16 g = set1(-decay) * softplus(load_first(a + i, n) + set1(dt_bias));
    store_first(a + i, exp(g), n);
    store_first(b + i, sigmoid(load_first(b + i, n)), n);
  }
}

// beta (v - decay S^T k) of N vectors of columns.
template <int N>
WEIR_SIMD void correction(F32x16* delta, const float* state, const float* k, const float* v, float decay,
                          float beta, const Recurrence& r) {
  F32x16 even[N], odd[N];
  for (int n = 0; n < N; ++n) even[n] = odd[n] = set1(0.0f);
  for (int64_t i = 0; i < r.key_dim; i += 2) {
    const float* row = state + i * r.value_dim;
    for (int n = 0; n < N; ++n) {
      even[n] = fma(set1(k[i]), load(row + n * kLanes), even[n]);
      odd[n] = fma(set1(k[i + 1]), load(row + r.value_dim + n * kLanes), odd[n]);
    }
  }
  for (int n = 0; n < N; ++n) {
    delta[n] = (load(v + n * kLanes) - (even[n] + odd[n]) * set1(decay)) * set1(beta);
  }
}

// S = decay S + k delta^T;  out = S^T q, of N vectors of columns.
template <int N>
WEIR_SIMD void update(float* out, float* state, const float* k, const float* q, const F32x16* delta,
                      float decay, const Recurrence& r) {
  F32x16 sum[2][N];
  for (int n = 0; n < N; ++n) sum[0][n] = sum[1][n] = set1(0.0f);
  for (int64_t i = 0; i < r.key_dim; i += 2) {
    for (int odd = 0; odd < 2; ++odd) {
      float* row = state + (i + odd) * r.value_dim;
      for (int n = 0; n < N; ++n) {
        const F32x16 s = fma(set1(k[i + odd]), delta[n], load(row + n * kLanes) * set1(decay));
        store(row + n * kLanes, s);
        sum[odd][n] = fma(set1(q[i + odd]), s, sum[odd][n]);
      }
    }
  }
  for (int n = 0; n < N; ++n) store(out + n * kLanes, sum[0][n] + sum[1][n]);
}

// All tokens for N vectors of columns from `column` on.
template <int N>
void recur_stripe(const Recurrence& r, int64_t column) {
  float* state = r.state + column;
  for (int64_t t = 0; t < r.tokens; ++t) {
    const float* k = r.k + t * r.key_dim;
    F32x16 delta[N];
    correction<N>(delta, state, k, r.v + t * r.value_dim + column, r.decay[t], r.beta[t], r);
    update<N>(r.out + t * r.out_stride + column, state, k, r.q + t * r.key_dim, delta, r.decay[t], r);
  }
}

void recur(const Recurrence& r) {
  int64_t column = 0;
  for (; column + kStripe * kLanes <= r.value_dim; column += kStripe * kLanes) {
    recur_stripe<kStripe>(r, column);
  }
  for (; column < r.value_dim; column += kLanes) recur_stripe<1>(r, column);
}

void norm_gate(float* out, const float* z, const float* gain, float epsilon, int64_t dim) {
  F32x16 squares = set1(0.0f);
  for (int64_t d = 0; d < dim; d += kLanes) squares = fma(load(out + d), load(out + d), squares);
  const float mean = reduce_add(squares) / static_cast<float>(dim);
  const F32x16 factor = set1(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int64_t d = 0; d < dim; d += kLanes) {
    store(out + d, load(out + d) * factor * load(gain + d) * silu(load(z + d)));
  }
}

}  // namespace

extern const DeltaKernels kDeltaKernels = {convolve, normalise, gates, recur, norm_gate};

}  // namespace weir::cpu::WEIR_ISA
