// attend, few rows: norms, rotation, cache append, attention and output gate in one launch.
//
// A block has one row, one KV head and a split of positions: 128, or, past 8,192 positions, as many times 128
// as keep the splits at 64; so splits depend on the row's own position alone. The query heads that share the
// KV head are packed as the eight columns of the tensor cores' right operand: keys (then values) are the left
// operand, straight from the cache in 16-byte loads, all of 128 positions asked for at once, and before the
// wait where no position is new. Warps take 16 positions each for the scores, 32 dims each for the values.
// Each block writes the new positions of its split itself, also those of earlier rows of the same pass (equal
// bits, so blocks that write them twice do no harm). The block that finishes a row's KV head last adds up the
// splits, in order, one warp a head. Bytes: keys and values once a row. Rounding: q, k, v and probabilities
// bf16, scores and sums float32. Ceiling: memory bandwidth; latency below about 8,192 positions.
#include "kernels/cuda/attention_few.cuh"
#include "kernels/cuda/staged_rows.cuh"

namespace weir::cuda {
namespace {

using namespace few;

constexpr int kThreads = 256;
constexpr int kVectorStride = 2 * kHeadDim + 64;  // bytes; eight rows read at once lie in different banks
constexpr int kPartial = kHeadDim + 4;  // a head's sums, its maximum and its total; keeps 16-byte alignment
constexpr int kOfPage = kPage / kBlock;
constexpr int kWeightStride = 2 * kBlock + 64;  // bytes

struct Memory {
  alignas(16) char queries[kMaxGroup * kVectorStride];
  alignas(16) char weights[kMaxGroup * kWeightStride];  // of one block's positions
  alignas(16) float sums[kMaxGroup][kHeadDim];
  float warp_max[kWarps][kMaxGroup];
  float warp_total[kWarps][kMaxGroup];
  float max[kMaxGroup];
  float total[kMaxGroup];
  int last;
};

// Queries into shared memory, scaled by 256^-1/2 (exact); missing heads are zero.
__device__ __forceinline__ void prepare_queries(const Item& item, const uint4& query, const HeadNorm& norm,
                                                const Rotation& rotation, Memory& m) {
  const int warp = threadIdx.x / 32;
  uint4 packed{};
  if (warp < item.group) {
    float v[8];
    unpack_head(v, query);
    norm_and_rotate(v, norm, rotation);
#pragma unroll
    for (float& value : v) value *= 0.0625f;
    packed = pack_head(v);
  }
  reinterpret_cast<uint4*>(m.queries + warp * kVectorStride)[threadIdx.x % 32] = packed;
}

// `rotation` is that of the row's own position.
__device__ __forceinline__ void append_new(const Params& p, const Item& item, const SegmentInfo& segment,
                                           const Appended& news, uint4 appended, const HeadNorm& norm,
                                           const Rotation& rotation, const CacheView& cache) {
  const int warp = threadIdx.x / 32;
  for (int i = warp; i < news.count; i += kWarps) {
    const int position = news.first + i / 2;
    if (i >= kWarps) appended = packed_head(news.from(p, item, segment, i));
    if (i % 2 == 1) {
      append_value(cache, item.kv_head, position, appended);
    } else if (position == item.position) {
      append_key(cache, item.kv_head, position, appended, norm, rotation);
    } else {
      append_key(cache, item.kv_head, position, appended, norm, Rotation(norm, position));
    }
  }
}

// What a lane loads of one block: of its warp's 16 keys rows i and i + 8, whole; of its warp's 32 dims'
// values rows i, i + 8, i + 16, i + 24, all positions. Elements 32 u + 8 t .. + 7 serve two steps of 16 of
// the sums.
struct Loaded {
  uint4 keys[kHeadDim / 32][2];
  uint4 values[2][kBlock / 32][2];

  // From the block's position `from` on; what lies before keeps its registers.
  __device__ __forceinline__ void load_keys(const CacheView& cache, int kv_head, int block, int from = 0) {
    const int warp = threadIdx.x / 32, i = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const __nv_bfloat16* key =
        cache.keys(block / kOfPage, kv_head) + (block % kOfPage * kBlock + 16 * warp + i) * kHeadDim + 8 * t;
#pragma unroll
    for (int u = 0; u < kHeadDim / 32; ++u) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (16 * warp + i + 8 * k < from) continue;
        keys[u][k] = *reinterpret_cast<const uint4*>(key + 8 * k * kHeadDim + 32 * u);
      }
    }
  }
  __device__ __forceinline__ void load_values(const CacheView& cache, int kv_head, int block, int from = 0) {
    const int warp = threadIdx.x / 32, i = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const __nv_bfloat16* value =
        cache.values(block / kOfPage, kv_head) + (32 * warp + i) * kPage + block % kOfPage * kBlock + 8 * t;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int u = 0; u < kBlock / 32; ++u) {
        if (32 * u + 8 * t + 7 < from) continue;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          values[m][u][k] = *reinterpret_cast<const uint4*>(value + (16 * m + 8 * k) * kPage + 32 * u);
        }
      }
    }
  }
  __device__ __forceinline__ void load(const CacheView& cache, int kv_head, int block, int from) {
    load_keys(cache, kv_head, block, from);
    load_values(cache, kv_head, block, from);
  }
};

// acc[16, 8] += 32 elements of 16 rows times the same elements of eight vectors in shared memory.
__device__ __forceinline__ void multiply_rows(float acc[4], const uint4 rows[2], const char* vector) {
  const uint4 low = rows[0], high = rows[1], b = *reinterpret_cast<const uint4*>(vector);
  const uint32_t a0[4] = {low.x, high.x, low.y, high.y}, a1[4] = {low.z, high.z, low.w, high.w};
  multiply_add(acc, a0, b.x, b.y);
  multiply_add(acc, a1, b.z, b.w);
}

// Scores of the warp's 16 positions of a block: positions i and i + 8, heads 2t and 2t + 1.
__device__ __forceinline__ void score_block(float scores[4], const Loaded& loaded, int count,
                                            const Memory& m) {
  const int lane = threadIdx.x % 32, i = lane / 4, first = threadIdx.x / 32 * 16;
  const char* queries = m.queries + i * kVectorStride + 16 * (lane % 4);
  float half[4] = {0, 0, 0, 0};
  scores[0] = scores[1] = scores[2] = scores[3] = 0;
#pragma unroll
  for (int u = 0; u < kHeadDim / 32; u += 2) {
    multiply_rows(scores, loaded.keys[u], queries + 64 * u);
    multiply_rows(half, loaded.keys[u + 1], queries + 64 * (u + 1));
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) scores[c] = first + i + c / 2 * 8 < count ? scores[c] + half[c] : -INFINITY;
}

__device__ __forceinline__ float over_positions_max(float x) {
  for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ __forceinline__ float over_positions_sum(float x) {
  for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

struct Running {
  float acc[2][4] = {};  // dims 32 warp + 16 m + i and + 8, heads 2t and 2t + 1
  float max[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};
};

// One block, from its scores on: softmax against the running maximum, and the weighted values.
__device__ __forceinline__ void weigh_block(Running& running, const float scores[4], const Loaded& loaded,
                                            Memory& m) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float best = over_positions_max(fmaxf(scores[h], scores[h + 2]));
    if (i == 0) m.warp_max[warp][2 * t + h] = best;
  }
  __syncthreads();
  float rescale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float best = running.max[h];
    for (int w = 0; w < kWarps; ++w) best = fmaxf(best, m.warp_max[w][2 * t + h]);
    rescale[h] = expf(running.max[h] - best);
    running.max[h] = best;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const __nv_bfloat16 weight = __float2bfloat16_rn(expf(scores[h + 2 * k] - best));
      reinterpret_cast<__nv_bfloat16*>(m.weights + (2 * t + h) * kWeightStride)[16 * warp + 8 * k + i] =
          weight;
      sum += __bfloat162float(weight);
    }
    sum = over_positions_sum(sum);
    if (i == 0) m.warp_total[warp][2 * t + h] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += m.warp_total[w][2 * t + h];
    running.total[h] = running.total[h] * rescale[h] + sum;
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < 4; ++c) running.acc[k][c] *= rescale[c % 2];
#pragma unroll
    for (int u = 0; u < kBlock / 32; ++u) {
      multiply_rows(running.acc[k], loaded.values[k][u], m.weights + i * kWeightStride + 16 * t + 64 * u);
    }
  }
  __syncthreads();
}

// A warp writes a head, and stages it for the product that follows: eight dims a lane, times sigmoid(gate).
__device__ __forceinline__ void store_gated(const Params& p, const Item& item, int head, const uint4& gates,
                                            const float v[8]) {
  const int h = item.kv_head * item.group + head;
  float gate[8], out[8];
  unpack_head(gate, gates);
#pragma unroll
  for (int k = 0; k < 8; ++k) out[k] = v[k] * sigmoid(gate[k]);
  __nv_bfloat16* to = p.mixed + (static_cast<size_t>(item.row) * p.heads + h) * kHeadDim;
  reinterpret_cast<uint4*>(to)[threadIdx.x % 32] = pack_head(out);
  const auto staged = StagedRows<TileKind::kQ4>::handed_on(p.staged, item.row, p.heads * kHeadDim);
  stage_chunk(staged, 0, h * kHeadDim / 8 + threadIdx.x % 32, true, out);
}

// A warp adds up the splits of a head. Lane l holds the weights of splits l and l + 32.
__device__ void combine_splits(const Params& p, const Item& item, int head, const uint4& gate) {
  constexpr uint32_t kAll = 0xffffffffu;
  constexpr size_t kStride = kMaxGroup * kPartial;
  const int lane = threadIdx.x % 32;
  const float* first = p.partial +
                       (static_cast<size_t>(item.row) * p.kv_heads + item.kv_head) * kMaxSplits * kStride +
                       head * kPartial;
  constexpr int kAtOnce = 4;
  float4 parts[kAtOnce][2];
  const auto load_parts = [&](int split) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (split + k >= item.splits) break;
      const float4* part = reinterpret_cast<const float4*>(first + (split + k) * kStride) + 2 * lane;
      parts[k][0] = __ldcg(part), parts[k][1] = __ldcg(part + 1);
    }
  };
  load_parts(0);
  float max[2], weight[2], total = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int s = lane + 32 * k;
    max[k] = s < item.splits ? __ldcg(first + s * kStride + kHeadDim) : -INFINITY;
  }
  float best = fmaxf(max[0], max[1]);
  for (int step = 16; step > 0; step /= 2) best = fmaxf(best, __shfl_xor_sync(kAll, best, step));
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int s = lane + 32 * k;
    weight[k] = expf(max[k] - best);
    if (s < item.splits) total = fmaf(weight[k], __ldcg(first + s * kStride + kHeadDim + 1), total);
  }
  total = warp_sum(total);
  float sum[8] = {};
  for (int split = 0; split < item.splits; split += kAtOnce) {
    if (split > 0) load_parts(split);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int s = split + k;
      if (s >= item.splits) break;
      const float w = __shfl_sync(kAll, s < 32 ? weight[0] : weight[1], s % 32);
      const float4 a = parts[k][0], b = parts[k][1];
      const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] = fmaf(w, values[i], sum[i]);
    }
  }
#pragma unroll
  for (float& value : sum) value /= total;
  store_gated(p, item, head, gate, sum);
}

__device__ void finish(const Params& p, const Item& item, const uint4& gate, Memory& m) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (item.splits == 1) {
    if (warp >= item.group) return;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = m.sums[warp][8 * lane + k] / m.total[warp];
    return store_gated(p, item, warp, gate, v);
  }
  const size_t pair = static_cast<size_t>(item.row) * p.kv_heads + item.kv_head;
  float* to = p.partial + ((pair * kMaxSplits + item.split) * kMaxGroup + warp) * kPartial;
  if (warp < item.group) {
    reinterpret_cast<float4*>(to)[lane] = reinterpret_cast<const float4*>(m.sums[warp])[lane];
    reinterpret_cast<float4*>(to)[lane + 32] = reinterpret_cast<const float4*>(m.sums[warp])[lane + 32];
    if (lane == 0) to[kHeadDim] = m.max[warp];
    if (lane == 1) to[kHeadDim + 1] = m.total[warp];
  }
  __syncthreads();
  if (threadIdx.x == 0) {  // its fences count for what the barriers order before and after
    __threadfence();
    m.last = atomicAdd(p.tickets + pair, 1) == item.splits - 1;
    __threadfence();
  }
  __syncthreads();
  if (!m.last) return;
  if (warp < item.group) combine_splits(p, item, warp, gate);
  if (threadIdx.x == 0) p.tickets[pair] = 0;
}

__global__ void __launch_bounds__(kThreads) attend_few_kernel(const Params p) {
  __shared__ Memory m;
  const Item item = item_of(p);
  const int index = p.pass.segment_of[item.row];
  const SegmentInfo segment = p.pass.segments[index];
  const CacheView cache = cache_of(p.pass, index, p.layer, p.kv_heads);
  const bool has_block = item.split < item.splits;
  // Positions of the first block that earlier passes have written; the others' places are loaded again.
  const int old = segment.position - item.first_block * kBlock;
  Loaded loaded;
  if (has_block && old > 0) loaded.load(cache, item.kv_head, item.first_block, 0);
  const HeadNorm q_norm(p.q_norm, p.frequencies, p.rotary_dim, p.epsilon);
  const HeadNorm k_norm(p.k_norm, p.frequencies, p.rotary_dim, p.epsilon);
  const Rotation rotation(q_norm, item.position);
  const Appended news(item, segment);
  wait_for_previous();
  let_next_start();
  if (!has_block) return;
  const Inputs inputs(p, item, segment, news);
  prepare_queries(item, inputs.query, q_norm, rotation, m);
  append_new(p, item, segment, news, inputs.appended, k_norm, rotation, cache);
  __syncthreads();

  // The next block's keys are asked for as soon as this one's are used, likewise the values.
  Running running;
  if (old < kBlock) loaded.load(cache, item.kv_head, item.first_block, max(old, 0));
  for (int block = item.first_block; block < item.end_block; ++block) {
    const bool more = block + 1 < item.end_block;
    float scores[4];
    score_block(scores, loaded, item.position + 1 - block * kBlock, m);
    if (more) loaded.load_keys(cache, item.kv_head, block + 1);
    weigh_block(running, scores, loaded, m);
    if (more) loaded.load_values(cache, item.kv_head, block + 1);
  }
  const int warp = threadIdx.x / 32, i = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < 4; ++c) m.sums[2 * t + c % 2][32 * warp + 16 * k + i + c / 2 * 8] = running.acc[k][c];
  }
  if (warp == 0 && i == 0) {
    m.max[2 * t] = running.max[0], m.max[2 * t + 1] = running.max[1];
    m.total[2 * t] = running.total[0], m.total[2 * t + 1] = running.total[1];
  }
  __syncthreads();
  finish(p, item, inputs.gate, m);
}

}  // namespace

void attend_few(LaunchQueue& queue, const AttentionCall& call, const PassView& pass) {
  Params p{};
  p.pass = pass;
  p.projected = call.projected;
  p.mixed = call.mixed;
  p.staged = call.staged;
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
  unsigned splits = kPage / kBlock;
  while (splits < kMaxSplits && splits < call.max_pages * (kPage / kBlock)) splits *= 2;
  queue.launch(
      attend_few_kernel,
      {dim3(splits, static_cast<unsigned>(call.kv_heads), static_cast<unsigned>(call.rows)), kThreads}, p);
}

}  // namespace weir::cuda
