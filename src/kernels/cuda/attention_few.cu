// attend, few rows: norms, rotation, cache append, attention and output gate in one launch.
//
// A block has one row, one KV head and a split of positions: one page, or, past 16,384 positions, as many
// pages as keep the splits at 64; so splits depend on the row's own position alone. The query heads that
// share the KV head are packed as the eight columns of the tensor cores' right operand: keys (then values)
// are the left operand, straight from the cache in 16-byte loads. Warps take 32 positions each for the
// scores, 32 dims each for the values. Each block writes the new positions of its split itself, also those of
// earlier rows of the same pass (equal bits, so blocks that write them twice do no harm). The block that
// finishes a row's KV head last adds up the splits, in order. Bytes: keys and values once a row. Rounding: q,
// k, v and probabilities bf16, scores and sums float32. Ceiling: memory bandwidth; latency below about 8,192
// positions.
#include "kernels/cuda/attention_heads.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = 8;
constexpr int kVectorStride = 2 * kHeadDim + 64;  // bytes; eight rows read at once lie in different banks
constexpr int kPartial = kHeadDim + 2;            // a head's sums, its maximum and its total

struct Params {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  const float* q_norm;
  const float* k_norm;
  const float* frequencies;
  float* partial;
  int32_t* tickets;
  int32_t rotary_dim;
  int32_t heads;
  int32_t kv_heads;
  int32_t layer;
  float epsilon;
  int32_t unused;
};

struct Memory {
  alignas(16) char queries[kMaxGroup * kVectorStride];
  alignas(16) char weights[kMaxGroup * kVectorStride];  // of one page's positions
  float sums[kMaxGroup][kHeadDim];
  float warp_max[kWarps][kMaxGroup];
  float warp_total[kWarps][kMaxGroup];
  float max[kMaxGroup];
  float total[kMaxGroup];
  int last;
};

struct Item {
  int row;
  int kv_head;
  int group;     // query heads
  int position;  // of the row
  int split;
  int splits;
  int first_page;
  int end_page;
};

__device__ __forceinline__ Item item_of(const Params& p) {
  Item item;
  item.row = blockIdx.z;
  item.kv_head = blockIdx.y;
  item.group = p.heads / p.kv_heads;
  item.position = p.pass.positions[item.row];
  const int pages = item.position / kPage + 1;
  int each = 1;
  while (each * kMaxSplits < pages) each *= 2;
  item.split = blockIdx.x;
  item.splits = (pages + each - 1) / each;
  item.first_page = item.split * each;
  item.end_page = min(pages, item.first_page + each);
  return item;
}

__device__ __forceinline__ const __nv_bfloat16* projected_row(const Params& p, int row) {
  return p.projected + static_cast<size_t>(row) * 2 * (p.heads + p.kv_heads) * kHeadDim;
}

// Queries into shared memory, scaled by 256^-1/2 (exact); missing heads are zero.
__device__ __forceinline__ void prepare_queries(const Params& p, const Item& item, Memory& m) {
  const int warp = threadIdx.x / 32;
  uint4 packed{};
  if (warp < item.group) {
    float v[8];
    load_head(v, projected_row(p, item.row) + 2 * (item.kv_head * item.group + warp) * kHeadDim);
    norm_and_rotate(v, {p.q_norm, p.frequencies, p.rotary_dim, p.epsilon}, item.position);
#pragma unroll
    for (float& value : v) value *= 0.0625f;
    packed = pack_head(v);
  }
  reinterpret_cast<uint4*>(m.queries + warp * kVectorStride)[threadIdx.x % 32] = packed;
}

__device__ __forceinline__ void append_new(const Params& p, const Item& item, const CacheView& cache) {
  const SegmentInfo segment = p.pass.segments[p.pass.segment_of[item.row]];
  const int first = max(segment.position, item.first_page * kPage);
  const int end = min(item.position + 1, item.end_page * kPage);
  const int warp = threadIdx.x / 32;
  for (int i = warp; i < 2 * (end - first); i += kWarps) {
    const int position = first + i / 2;
    const __nv_bfloat16* row = projected_row(p, segment.first_row + position - segment.position) +
                               (2 * p.heads + item.kv_head) * kHeadDim;
    if (i % 2 == 0) {
      append_key(cache, item.kv_head, position, row, {p.k_norm, p.frequencies, p.rotary_dim, p.epsilon});
    } else {
      append_value(cache, item.kv_head, position, row + p.kv_heads * kHeadDim);
    }
  }
}

// acc[16, 8] += rows of `plane` (256 elements each) from `first` on, times the eight vectors in shared
// memory, over the first 32 `steps` elements. Both operands take elements 32 u + 8 t .. + 7 in a lane's two
// steps.
__device__ __forceinline__ void multiply_rows(float acc[4], const __nv_bfloat16* plane, int first,
                                              const char* vectors, int steps) {
  const int lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
  const uint4* low = reinterpret_cast<const uint4*>(plane + (first + i) * kHeadDim) + t;
  const uint4* high = low + 8 * kHeadDim / 8;
  const char* vector = vectors + i * kVectorStride + 16 * t;
#pragma unroll
  for (int u = 0; u < kHeadDim / 32; ++u) {
    if (u >= steps) break;
    const uint4 l = low[4 * u], h = high[4 * u], b = *reinterpret_cast<const uint4*>(vector + 64 * u);
    const uint32_t a0[4] = {l.x, h.x, l.y, h.y}, a1[4] = {l.z, h.z, l.w, h.w};
    multiply_add(acc, a0, b.x, b.y);
    multiply_add(acc, a1, b.z, b.w);
  }
}

// Scores of the warp's 32 positions of a page: scores[k] = positions 16 k + i and + 8, heads 2t and 2t + 1.
__device__ __forceinline__ void score_page(float scores[2][4], const __nv_bfloat16* keys, int count,
                                           const Memory& m) {
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 32;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    scores[k][0] = scores[k][1] = scores[k][2] = scores[k][3] = 0;
    if (first + 16 * k < count) multiply_rows(scores[k], keys, first + 16 * k, m.queries, kHeadDim / 32);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (first + 16 * k + lane / 4 + (c < 2 ? 0 : 8) >= count) scores[k][c] = -INFINITY;
    }
  }
}

__device__ __forceinline__ float over_positions_max(float x) {
  for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ __forceinline__ float over_positions_sum(float x) {
  for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// One page: scores, softmax against the running maximum, and the weighted values added to acc (dims
// 32 warp + 16 k + i and + 8, heads 2t and 2t + 1).
__device__ __forceinline__ void attend_page(float acc[2][4], float running_max[2], float total[2],
                                            const CacheView& cache, const Item& item, int page, Memory& m) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
  const int count = min(kPage, item.position + 1 - page * kPage);
  float scores[2][4];
  score_page(scores, cache.keys(page, item.kv_head), count, m);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float best = over_positions_max(
        fmaxf(fmaxf(scores[0][h], scores[0][h + 2]), fmaxf(scores[1][h], scores[1][h + 2])));
    if (i == 0) m.warp_max[warp][2 * t + h] = best;
  }
  __syncthreads();
  float rescale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float best = running_max[h];
    for (int w = 0; w < kWarps; ++w) best = fmaxf(best, m.warp_max[w][2 * t + h]);
    rescale[h] = expf(running_max[h] - best);
    running_max[h] = best;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {  // positions i, i + 8, i + 16, i + 24
      const float weight = expf(scores[k / 2][h + 2 * (k % 2)] - best);
      const __nv_bfloat16 rounded = __float2bfloat16_rn(weight);
      reinterpret_cast<__nv_bfloat16*>(m.weights + (2 * t + h) * kVectorStride)[32 * warp + 8 * k + i] =
          rounded;
      sum += __bfloat162float(rounded);
    }
    sum = over_positions_sum(sum);
    if (i == 0) m.warp_total[warp][2 * t + h] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += m.warp_total[w][2 * t + h];
    total[h] = total[h] * rescale[h] + sum;
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < 4; ++c) acc[k][c] *= rescale[c % 2];
    multiply_rows(acc[k], cache.values(page, item.kv_head), 32 * warp + 16 * k, m.weights, (count + 31) / 32);
  }
  __syncthreads();
}

// mixed = sums / total, times sigmoid(gate). A thread has one dim.
__device__ __forceinline__ void store_gated(const Params& p, const Item& item, int head, float value) {
  const int h = item.kv_head * item.group + head, d = threadIdx.x;
  const float gate = __bfloat162float(projected_row(p, item.row)[(2 * h + 1) * kHeadDim + d]);
  p.mixed[(static_cast<size_t>(item.row) * p.heads + h) * kHeadDim + d] =
      __float2bfloat16_rn(value * sigmoid(gate));
}

__device__ void combine_splits(const Params& p, const Item& item) {
  const int d = threadIdx.x;
  const size_t split_stride = kMaxGroup * kPartial;
  const float* first =
      p.partial + (static_cast<size_t>(item.row) * p.kv_heads + item.kv_head) * kMaxSplits * split_stride;
  for (int head = 0; head < item.group; ++head) {
    const float* of_head = first + head * kPartial;
    float best = -INFINITY, total = 0, sum = 0;
    for (int s = 0; s < item.splits; ++s) best = fmaxf(best, __ldcg(of_head + s * split_stride + kHeadDim));
    for (int s = 0; s < item.splits; ++s) {
      const float* part = of_head + s * split_stride;
      const float weight = expf(__ldcg(part + kHeadDim) - best);
      total = fmaf(weight, __ldcg(part + kHeadDim + 1), total);
      sum = fmaf(weight, __ldcg(part + d), sum);
    }
    store_gated(p, item, head, sum / total);
  }
}

__device__ void finish(const Params& p, const Item& item, Memory& m) {
  if (item.splits == 1) {
    for (int head = 0; head < item.group; ++head)
      store_gated(p, item, head, m.sums[head][threadIdx.x] / m.total[head]);
    return;
  }
  const size_t pair = static_cast<size_t>(item.row) * p.kv_heads + item.kv_head;
  float* to = p.partial + (pair * kMaxSplits + item.split) * kMaxGroup * kPartial;
  for (int head = 0; head < item.group; ++head) {
    to[head * kPartial + threadIdx.x] = m.sums[head][threadIdx.x];
    if (threadIdx.x == 0) to[head * kPartial + kHeadDim] = m.max[head];
    if (threadIdx.x == 1) to[head * kPartial + kHeadDim + 1] = m.total[head];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) m.last = atomicAdd(p.tickets + pair, 1) == item.splits - 1;
  __syncthreads();
  if (!m.last) return;
  __threadfence();
  combine_splits(p, item);
  if (threadIdx.x == 0) p.tickets[pair] = 0;
}

__global__ void __launch_bounds__(kThreads) attend_few_kernel(const Params p) {
  __shared__ Memory m;
  wait_for_previous();
  let_next_start();
  const Item item = item_of(p);
  if (item.split >= item.splits) return;
  const CacheView cache = cache_of(p.pass, p.pass.segment_of[item.row], p.layer, p.kv_heads);
  prepare_queries(p, item, m);
  append_new(p, item, cache);
  __syncthreads();

  float acc[2][4] = {}, running_max[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  for (int page = item.first_page; page < item.end_page; ++page) {
    attend_page(acc, running_max, total, cache, item, page, m);
  }
  const int warp = threadIdx.x / 32, i = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < 4; ++c) m.sums[2 * t + c % 2][32 * warp + 16 * k + i + (c < 2 ? 0 : 8)] = acc[k][c];
  }
  if (warp == 0 && i == 0) {
    m.max[2 * t] = running_max[0], m.max[2 * t + 1] = running_max[1];
    m.total[2 * t] = total[0], m.total[2 * t + 1] = total[1];
  }
  __syncthreads();
  finish(p, item, m);
}

}  // namespace

void attend_few(LaunchQueue& queue, const AttentionCall& call, const PassView& pass) {
  Params p{};
  p.pass = pass;
  p.projected = call.projected;
  p.mixed = call.mixed;
  p.q_norm = call.q_norm;
  p.k_norm = call.k_norm;
  p.frequencies = call.frequencies;
  p.partial = call.partial;
  p.tickets = call.tickets;
  p.rotary_dim = static_cast<int32_t>(call.rotary_dim);
  p.heads = static_cast<int32_t>(call.heads);
  p.kv_heads = static_cast<int32_t>(call.kv_heads);
  p.layer = static_cast<int32_t>(call.layer);
  p.epsilon = call.epsilon;
  // Enough blocks for the next power of two of pages, so that the same graph serves many tokens.
  unsigned splits = 1;
  while (splits < kMaxSplits && splits < call.max_pages) splits *= 2;
  queue.launch(
      attend_few_kernel,
      {dim3(splits, static_cast<unsigned>(call.kv_heads), static_cast<unsigned>(call.rows)), kThreads}, p);
}

}  // namespace weir::cuda
