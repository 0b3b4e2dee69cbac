#include "kernels/cpu/attention_kernels.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// Sums of a tile of queries x vectors stay in registers; the tile's shape is a matter of how many there are
// and has no influence on any bit.
#if defined(__AVX512F__)
constexpr int kTileQueries = 12;
constexpr int kTileVectors = 2;
#else
constexpr int kTileQueries = 4;
constexpr int kTileVectors = 1;
#endif

// Calls tile<Q>(first query) for tiles of Q queries, then of the next smaller power of two and so on, that
// make up `count`.
template <int Q, class Tile>
WEIR_SIMD void for_query_tiles(int64_t first, int64_t count, const Tile& tile) {
  for (; first + Q <= count; first += Q) tile.template operator()<Q>(first);
  if constexpr (Q > 1) for_query_tiles<Q == 12 ? 8 : Q / 2>(first, count, tile);
}

// scores[m, n * 16 + lane] = q_m . k of Q queries with N blocks of 16 positions. What the next tile reads is
// fetched meanwhile, here and below: the blocks of a tile are streams too short for the hardware to notice.
template <int Q, int N>
void score_tile(float* scores, const float* q, const uint16_t* keys, int64_t dim) {
  F32x16 sum[Q][N];
  for (int m = 0; m < Q; ++m) {
    for (int n = 0; n < N; ++n) sum[m][n] = set1(0.0f);
  }
  for (int64_t d = 0; d < dim; ++d) {
    F32x16 k[N];
    for (int n = 0; n < N; ++n) k[n] = load_bf16(keys + (n * dim + d) * kLanes);
    prefetch(keys + N * (dim + d) * kLanes);
    for (int m = 0; m < Q; ++m) {
      const F32x16 x = set1(q[m * dim + d]);
      for (int n = 0; n < N; ++n) sum[m][n] = fma(x, k[n], sum[m][n]);
    }
  }
  for (int m = 0; m < Q; ++m) {
    for (int n = 0; n < N; ++n) store(scores + m * kPagePositions + n * kLanes, sum[m][n]);
  }
}

// out[m, n * 16 + lane] = sum over the visible positions of weight * v, for Q queries and N blocks of 16
// dims.
template <int Q, int N>
void value_tile(float* out, const float* weights, const uint16_t* values, const Visible& seen, int64_t dim) {
  F32x16 sum[Q][N];
  for (int m = 0; m < Q; ++m) {
    for (int n = 0; n < N; ++n) sum[m][n] = set1(0.0f);
  }
  for (int64_t p = seen.begin; p < seen.end; ++p) {
    F32x16 v[N];
    for (int n = 0; n < N; ++n) v[n] = load_bf16(values + (n * kPagePositions + p) * kLanes);
    prefetch(values + N * (kPagePositions + p) * kLanes);
    for (int m = 0; m < Q; ++m) {
      const F32x16 x = set1(weights[m * kPagePositions + p]);
      for (int n = 0; n < N; ++n) sum[m][n] = fma(x, v[n], sum[m][n]);
    }
  }
  for (int m = 0; m < Q; ++m) {
    for (int n = 0; n < N; ++n) store(out + m * dim + n * kLanes, sum[m][n]);
  }
}

// Scores of one query become e^(score - max), and 0 at positions of `all` that it does not see.
WEIR_SIMD void exponentials(float* max_out, float* sum_out, float* scores, const Visible& seen,
                            const Visible& all) {
  const int64_t first = all.begin / kLanes * kLanes, end = (all.end + kLanes - 1) / kLanes * kLanes;
  for (int64_t p = first; p < seen.begin; ++p) scores[p] = -__builtin_inff();
  for (int64_t p = seen.end; p < end; ++p) scores[p] = -__builtin_inff();
  F32x16 highest = load(scores + first);
  for (int64_t p = first + kLanes; p < end; p += kLanes) highest = max(highest, load(scores + p));
  const F32x16 top = set1(reduce_max(highest));
  F32x16 sum = set1(0.0f);
  for (int64_t p = first; p < end; p += kLanes) {
    const F32x16 e = exp(load(scores + p) - top);
    store(scores + p, e);
    sum = sum + e;
  }
  *max_out = reduce_max(top);
  *sum_out = reduce_add(sum);
}

// Value sums of all queries for N blocks of 16 dims.
template <int N>
void weigh_values(float* out, const float* weights, const uint16_t* values, const Visible& seen,
                  int64_t queries, int64_t dim) {
  for_query_tiles<kTileQueries>(0, queries, [&]<int Q>(int64_t first) {
    value_tile<Q, N>(out + first * dim, weights + first * kPagePositions, values, seen, dim);
  });
}

Visible union_of(const Visible* visible, int64_t rows) {
  Visible all = visible[0];
  for (int64_t r = 1; r < rows; ++r) {
    if (visible[r].begin < all.begin) all.begin = visible[r].begin;
    if (visible[r].end > all.end) all.end = visible[r].end;
  }
  return all;
}

void attend_page(const Partial& out, const float* q, const HeadPage& page, const Visible* visible,
                 int64_t rows, int64_t group, int64_t dim, float* scores) {
  constexpr int64_t kStep = kTileVectors * kLanes;
  const Visible all = union_of(visible, rows);
  const int64_t queries = rows * group;
  for (int64_t p = all.begin / kStep * kStep; p < all.end; p += kStep) {
    for_query_tiles<kTileQueries>(0, queries, [&]<int Q>(int64_t first) {
      score_tile<Q, kTileVectors>(scores + first * kPagePositions + p, q + first * dim, page.keys + p * dim,
                                  dim);
    });
  }
  for (int64_t m = 0; m < queries; ++m) {
    exponentials(out.max + m, out.sum + m, scores + m * kPagePositions, visible[m / group], all);
  }
  int64_t d = 0;
  for (; d + kStep <= dim; d += kStep) {
    weigh_values<kTileVectors>(out.values + d, scores, page.values + d * kPagePositions, all, queries, dim);
  }
  for (; d < dim; d += kLanes) {
    weigh_values<1>(out.values + d, scores, page.values + d * kPagePositions, all, queries, dim);
  }
}

void norm_rotate(float* out, const float* x, const float* gain, float epsilon, const Rotation& rotation,
                 float scale, int64_t dim) {
  F32x16 squares = set1(0.0f);
  for (int64_t d = 0; d < dim; d += kLanes) squares = fma(load(x + d), load(x + d), squares);
  const float mean = reduce_add(squares) / static_cast<float>(dim);
  const F32x16 factor = set1(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int64_t d = 0; d < dim; d += kLanes) {
    store(out + d, load(x + d) * factor * (gain == nullptr ? set1(1.0f) : load(gain + d)));
  }
  float* partner = out + rotation.distance;
  for (int64_t i = 0; i < rotation.pairs; ++i) {
    const float a = out[i], b = partner[i];
    out[i] = a * rotation.cosines[i] - b * rotation.sines[i];
    partner[i] = b * rotation.cosines[i] + a * rotation.sines[i];
  }
  for (int64_t d = 0; d < dim; d += kLanes) store(out + d, load(out + d) * set1(scale));
}

void merge(const Partial& total, const Partial& next, int64_t dim) {
  const float top = *total.max > *next.max ? *total.max : *next.max;
  const F32x16 keep = exp(set1(*total.max - top));
  const F32x16 add = exp(set1(*next.max - top));
  *total.max = top;
  *total.sum = reduce_max(fma(set1(*next.sum), add, set1(*total.sum) * keep));
  for (int64_t d = 0; d < dim; d += kLanes) {
    store(total.values + d, fma(load(next.values + d), add, load(total.values + d) * keep));
  }
}

void finish(float* out, const Partial& total, const float* gate, int64_t dim) {
  const F32x16 sum = set1(*total.sum);
  for (int64_t d = 0; d < dim; d += kLanes) {
    const F32x16 divisor = gate == nullptr ? sum : fma(sum, exp(negate(load(gate + d))), sum);
    store(out + d, load(total.values + d) / divisor);  // sum / sigmoid(gate)
  }
}

}  // namespace

extern constinit const AttentionKernels kAttentionKernels = {norm_rotate, attend_page, merge, finish};

}  // namespace weir::cpu::WEIR_ISA
