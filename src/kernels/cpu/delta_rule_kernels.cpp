#include "kernels/cpu/delta_rule_kernels.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// Columns of the state that go through all tokens together, in vectors: their sums stay in registers, 32 of
// 512 bits or 16 of 256. No influence on any bit.
#if defined(__AVX512F__)
constexpr int kStripe = 2;
#else
constexpr int kStripe = 1;
#endif
static_assert(kStripe * kLanes <= kColumns);

// Sums over the rows of the state run separately for rows 0, 1, 2 and 3 mod kSums: enough chains to hide the
// latency of an fma.
constexpr int kSums = 4;

const float* source_row(const ConvInput& in, int64_t row) {
  return row >= 0 ? in.rows + row * in.row_stride : in.carried + (in.kept + row) * in.channels;
}

// The few channels of a head lie far from those of the next row, where no hardware prefetcher looks for them.
constexpr int64_t kPrefetchRows = 8;

void convolve(float* out, const ConvInput& in, const float* taps, int64_t row, int64_t channel,
              int64_t width) {
  for (int64_t c = 0; c < width; c += kLanes) {
    F32x16 sum = set1(0.0f);
    for (int64_t j = 0; j <= in.kept; ++j) {
      const float* x = source_row(in, row - in.kept + j) + channel + c;
      sum = fma(load(taps + j * in.channels + channel + c), load(x), sum);
    }
    store(out + c, silu(sum));
    prefetch(source_row(in, row + kPrefetchRows) + channel + c);
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

// N vectors of columns of the state.
struct Stripe {
  float* state;    // [key_dim], `stride` apart
  int64_t stride;  // elements
  int64_t key_dim;
};

template <int N>
WEIR_SIMD void add_up(F32x16* total, const F32x16 (&sum)[kSums][N]) {
  for (int n = 0; n < N; ++n) total[n] = (sum[0][n] + sum[1][n]) + (sum[2][n] + sum[3][n]);
}

// sum = S^T k.
template <int N>
WEIR_SIMD void recall(F32x16* total, Stripe s, const float* k) {
  F32x16 sum[kSums][N];
  for (int c = 0; c < kSums; ++c) {
    for (int n = 0; n < N; ++n) sum[c][n] = set1(0.0f);
  }
  for (int64_t i = 0; i < s.key_dim; i += kSums) {
    for (int c = 0; c < kSums; ++c) {
      const float* row = s.state + (i + c) * s.stride;
      for (int n = 0; n < N; ++n) sum[c][n] = fma(set1(k[i + c]), load(row + n * kLanes), sum[c][n]);
    }
  }
  add_up<N>(total, sum);
}

// S = decay S + k delta^T;  total = S^T q.
template <int N>
WEIR_SIMD void update(F32x16* total, Stripe s, const float* k, const float* q, const F32x16* delta,
                      F32x16 decay) {
  F32x16 sum[kSums][N];
  for (int c = 0; c < kSums; ++c) {
    for (int n = 0; n < N; ++n) sum[c][n] = set1(0.0f);
  }
  for (int64_t i = 0; i < s.key_dim; i += kSums) {
    for (int c = 0; c < kSums; ++c) {
      float* row = s.state + (i + c) * s.stride;
      const F32x16 key = set1(k[i + c]), query = set1(q[i + c]);
      for (int n = 0; n < N; ++n) {
        const F32x16 updated = fma(key, delta[n], load(row + n * kLanes) * decay);
        store(row + n * kLanes, updated);
        sum[c][n] = fma(query, updated, sum[c][n]);
      }
    }
  }
  add_up<N>(total, sum);
}

// All tokens for the stripe of columns from `column` on.
template <int N>
void run_tokens(const Recurrence& r, Stripe s, int64_t column) {
  for (int64_t t = 0; t < r.tokens; ++t) {
    const float* k = r.k + t * r.key_dim;
    const float* v = r.v + t * r.value_dim + column;
    float* out = r.out + t * r.out_stride + column;
    const F32x16 decay = set1(r.decay[t]), beta = set1(r.beta[t]);
    F32x16 delta[N], o[N];
    recall<N>(delta, s, k);
    for (int n = 0; n < N; ++n) delta[n] = (load(v + n * kLanes) - delta[n] * decay) * beta;
    update<N>(o, s, k, r.q + t * r.key_dim, delta, decay);
    for (int n = 0; n < N; ++n) store(out + n * kLanes, o[n]);
  }
}

template <int N>
void copy_columns(float* to, int64_t to_stride, const float* from, int64_t from_stride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int n = 0; n < N; ++n) {
      store(to + i * to_stride + n * kLanes, load(from + i * from_stride + n * kLanes));
    }
  }
}

// Many tokens work on a dense copy of the columns: in place, rows that are a power of two apart would compete
// for the same few sets of the L1 cache.
template <int N>
void recur_stripe(const Recurrence& r, int64_t column) {
  constexpr int64_t kFewTokens = 2;
  float* state = r.state + column;
  if (r.tokens <= kFewTokens) {
    run_tokens<N>(r, {state, r.value_dim, r.key_dim}, column);
    return;
  }
  copy_columns<N>(r.columns, N * kLanes, state, r.value_dim, r.key_dim);
  run_tokens<N>(r, {r.columns, N * kLanes, r.key_dim}, column);
  copy_columns<N>(state, r.value_dim, r.columns, N * kLanes, r.key_dim);
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

extern constinit const DeltaKernels kDeltaKernels = {convolve, normalise, gates, recur, norm_gate};

}  // namespace weir::cpu::WEIR_ISA
