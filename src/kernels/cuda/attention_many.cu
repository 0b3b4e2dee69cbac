// attend, many rows. prepare: a warp norms and rotates one head's query or key of a row, or moves its value,
// and writes the cache. attend: a block has 64 rows of one segment and one query head, its four warps 16 rows
// each; keys and values pass by in blocks of 64 positions, counted from position 0, through shared memory;
// scores, probabilities and sums stay in registers (online softmax). A row's result depends on its position
// alone: blocks of positions past it leave its sums as they are. Bytes: keys and values once for 64 rows and
// a head, from L2. Rounding: q, k, v and probabilities bf16, scores and sums float32. Ceiling: the mma.sync
// rate.
#include "kernels/cuda/attention_heads.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;
constexpr int kKeys = 64;
constexpr float kLog2E = 1.4426950408889634f;

struct Params {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  __nv_bfloat16* queries;
  const float* q_norm;
  const float* k_norm;
  const float* frequencies;
  int32_t rotary_dim;
  int32_t heads;
  int32_t kv_heads;
  int32_t layer;
  float epsilon;
  int32_t unused;
};

__global__ void __launch_bounds__(256) prepare_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const int row = blockIdx.x, vector = blockIdx.y * 8 + threadIdx.x / 32;
  if (vector >= p.heads + 2 * p.kv_heads) return;
  const int position = p.pass.positions[row];
  const __nv_bfloat16* in = p.projected + static_cast<size_t>(row) * 2 * (p.heads + p.kv_heads) * kHeadDim;
  const HeadNorm norm(vector < p.heads ? p.q_norm : p.k_norm, p.frequencies, p.rotary_dim, p.epsilon);
  if (vector < p.heads) {
    float v[8];
    load_head(v, in + 2 * vector * kHeadDim);
    norm_and_rotate(v, norm, position);
#pragma unroll
    for (float& value : v) value *= 0.0625f;  // 256^-1/2, exact
    __nv_bfloat16* to = p.queries + (static_cast<size_t>(row) * p.heads + vector) * kHeadDim;
    reinterpret_cast<uint4*>(to)[threadIdx.x % 32] = pack_head(v);
    return;
  }
  const CacheView cache = cache_of(p.pass, p.pass.segment_of[row], p.layer, p.kv_heads);
  const int head = vector - p.heads;
  const __nv_bfloat16* from = in + (2 * p.heads + head) * kHeadDim;
  if (head < p.kv_heads) {
    append_key(cache, head, position, packed_head(from), norm, Rotation(norm, position));
  } else {
    append_value(cache, head - p.kv_heads, position, packed_head(from));
  }
}

// Shared memory: queries [64][256], keys [64][256] and values [256][64], bf16. The 16-byte pieces of a row
// are permuted by the row's number, so that eight rows of one column lie in different banks.
constexpr int kQueryBytes = kRows * kHeadDim * 2;
constexpr int kKeyBytes = kKeys * kHeadDim * 2;
constexpr int kSharedBytes = kQueryBytes + 2 * kKeyBytes;

__device__ __forceinline__ uint32_t wide_piece(int row, int piece) {  // rows of 512 bytes
  return 512 * row + 16 * (piece ^ (row % 8));
}
__device__ __forceinline__ uint32_t narrow_piece(int row, int piece) {  // rows of 128 bytes
  return 128 * row + 16 * (piece ^ (row % 8));
}

__device__ __forceinline__ void fetch_keys(uint32_t to, const CacheView& cache, int kv_head, int first) {
  const __nv_bfloat16* from = cache.keys(first / kPage, kv_head) + first % kPage * kHeadDim;
#pragma unroll
  for (int i = threadIdx.x; i < kKeys * 32; i += kThreads) {
    copy_async(to + wide_piece(i / 32, i % 32), from + 8 * i);
  }
  copy_async_commit();
}
__device__ __forceinline__ void fetch_values(uint32_t to, const CacheView& cache, int kv_head, int first) {
  const __nv_bfloat16* from = cache.values(first / kPage, kv_head) + first % kPage;
#pragma unroll
  for (int i = threadIdx.x; i < kHeadDim * 8; i += kThreads) {
    copy_async(to + narrow_piece(i / 8, i % 8), from + i / 8 * kPage + i % 8 * 8);
  }
  copy_async_commit();
}

// scores[16 rows, 64 keys] of a warp.
__device__ __forceinline__ void score(float scores[8][4], uint32_t queries, uint32_t keys) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
  for (int n = 0; n < 8; ++n) scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
  for (int u = 0; u < kHeadDim / 32; ++u) {
    uint32_t a[2][4];
    load_matrices(a[0], queries + wide_piece(row, 4 * u + lane / 16));
    load_matrices(a[1], queries + wide_piece(row, 4 * u + 2 + lane / 16));
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      uint32_t b[4];
      load_matrices(b, keys + wide_piece(8 * n + lane % 8, 4 * u + lane / 8));
      multiply_add(scores[n], a[0], b[0], b[1]);
      multiply_add(scores[n], a[1], b[2], b[3]);
    }
  }
}

struct Softmax {
  float max[2] = {-INFINITY, -INFINITY};  // rows i and i + 8
  float total[2] = {0, 0};
};

// Masks, takes the running maximum, turns scores into probabilities. `last[k]` is the last key of row i + 8
// k.
__device__ __forceinline__ void soften(float scores[8][4], float rescale[2], Softmax& state, int first_key,
                                       const int last[2]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float best = state.max[k];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& s = scores[n][2 * k + c];
        if (first_key + 8 * n + 2 * t + c > last[k]) s = -INFINITY;
        best = fmaxf(best, s);
      }
    }
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
    const float from = best == -INFINITY ? 0.0f : best * kLog2E;
    rescale[k] = exp2f(state.max[k] * kLog2E - from);
    state.max[k] = best;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& s = scores[n][2 * k + c];
        s = exp2f(fmaf(s, kLog2E, -from));
        sum += s;
      }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    state.total[k] = state.total[k] * rescale[k] + sum;
  }
}

// acc[16 rows, 256 dims] = rescale acc + probabilities values.
__device__ __forceinline__ void weigh(float acc[32][4], const float weights[8][4], const float rescale[2],
                                      uint32_t values) {
  const int lane = threadIdx.x % 32;
  uint32_t a[4][4];
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    a[s][0] = pack_bf16(weights[2 * s][0], weights[2 * s][1]);
    a[s][1] = pack_bf16(weights[2 * s][2], weights[2 * s][3]);
    a[s][2] = pack_bf16(weights[2 * s + 1][0], weights[2 * s + 1][1]);
    a[s][3] = pack_bf16(weights[2 * s + 1][2], weights[2 * s + 1][3]);
  }
#pragma unroll
  for (int n = 0; n < 32; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) acc[n][c] *= rescale[c / 2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      uint32_t b[4];
      load_matrices(b, values + narrow_piece(8 * n + lane % 8, 4 * u + lane / 8));
      multiply_add(acc[n], a[2 * u], b[0], b[1]);
      multiply_add(acc[n], a[2 * u + 1], b[2], b[3]);
    }
  }
}

__device__ __forceinline__ void store_rows(const Params& p, int head, const int rows[2],
                                           const float acc[32][4], const Softmax& state) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    if (rows[k] < 0) continue;
    const size_t row = rows[k];
    const __nv_bfloat16* gates =
        p.projected + row * 2 * (p.heads + p.kv_heads) * kHeadDim + (2 * head + 1) * kHeadDim;
    __nv_bfloat16* out = p.mixed + (row * p.heads + head) * kHeadDim;
    const float scale = 1.0f / state.total[k];
#pragma unroll
    for (int n = 0; n < 32; ++n) {
      const int d = 8 * n + 2 * t;
      const uint32_t gate = *reinterpret_cast<const uint32_t*>(gates + d);
      *reinterpret_cast<uint32_t*>(out + d) =
          pack_bf16(acc[n][2 * k] * scale * sigmoid(low_float(gate)),
                    acc[n][2 * k + 1] * scale * sigmoid(high_float(gate)));
    }
  }
}

__global__ void __launch_bounds__(kThreads) attend_many_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  wait_for_previous();
  let_next_start();
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;  // the longest first
  if (first >= segment.rows) return;
  const int head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads);
  const CacheView cache = cache_of(p.pass, blockIdx.z, p.layer, p.kv_heads);
  const uint32_t queries = shared_address(memory), keys = queries + kQueryBytes, values = keys + kKeyBytes;
  const int count = min(kRows, segment.rows - first);

  for (int i = threadIdx.x; i < kRows * 32; i += kThreads) {
    const int r = i / 32, row = segment.first_row + first + min(r, count - 1);
    copy_async(queries + wide_piece(r, i % 32),
               p.queries + (static_cast<size_t>(row) * p.heads + head) * kHeadDim + i % 32 * 8);
  }
  const int end = segment.position + first + count;  // one past the last position that any row sees
  fetch_keys(keys, cache, kv_head, 0);

  int last[2], rows[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * k;
    last[k] = segment.position + first + min(r, count - 1);
    rows[k] = r < count ? segment.first_row + first + r : -1;
  }
  float acc[32][4] = {};
  Softmax state;
  for (int key = 0; key < end; key += kKeys) {
    fetch_values(values, cache, kv_head, key);
    copy_async_wait<1>();
    __syncthreads();
    float scores[8][4], rescale[2];
    score(scores, queries, keys);
    __syncthreads();
    if (key + kKeys < end) {
      fetch_keys(keys, cache, kv_head, key + kKeys);
    } else {
      copy_async_commit();
    }
    soften(scores, rescale, state, key, last);
    copy_async_wait<1>();
    __syncthreads();
    weigh(acc, scores, rescale, values);
    __syncthreads();
  }
  store_rows(p, head, rows, acc, state);
}

}  // namespace

void attend_many(LaunchQueue& queue, const AttentionCall& call, const PassView& pass) {
  Params p{};
  p.pass = pass;
  p.projected = call.projected;
  p.mixed = call.mixed;
  p.queries = call.queries;
  p.q_norm = call.q_norm;
  p.k_norm = call.k_norm;
  p.frequencies = call.frequencies;
  p.rotary_dim = static_cast<int32_t>(call.rotary_dim);
  p.heads = static_cast<int32_t>(call.heads);
  p.kv_heads = static_cast<int32_t>(call.kv_heads);
  p.layer = static_cast<int32_t>(call.layer);
  p.epsilon = call.epsilon;
  const auto rows = static_cast<unsigned>(call.rows), heads = static_cast<unsigned>(call.heads);
  const auto vectors = static_cast<unsigned>(call.heads + 2 * call.kv_heads);
  queue.launch(prepare_kernel, {dim3(rows, (vectors + 7) / 8), 256}, p);
  const auto blocks = static_cast<unsigned>((call.max_segment_rows + kRows - 1) / kRows);
  queue.launch(attend_many_kernel,
               {dim3(blocks, heads, static_cast<unsigned>(pass.segment_count)), kThreads, kSharedBytes}, p);
}

}  // namespace weir::cuda
