// attend, many rows. prepare: norms and rotates queries and keys and writes the cache. attend: the query
// heads that share a KV head are packed, so that a block has 128 queries, 16 rows times 8 heads, of one
// segment. Two groups of four warps have 64 of them each; four more warps fetch keys and values in blocks of
// 64 positions, counted from position 0, two blocks of each ahead, and hand them on by barriers in shared
// memory, so that no group waits for the other. Products are wgmma: scores from queries and keys in shared
// memory, values weighed by probabilities in registers; the softmax of one block (online) runs while the
// values of the one before are weighed. A row's result depends on its position alone: blocks of positions
// past it leave its sums as they are. Bytes: keys and values once for 16 rows, from L2. Rounding: q, k, v and
// probabilities bf16, scores and sums float32. Ceiling: the wgmma rate, where shared memory is as busy as the
// tensor cores.
#include "kernels/cuda/attention_heads.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace weir::cuda {
namespace {

constexpr int kGroup = 128;  // threads of four warps, which multiply together
constexpr int kGroups = 2;   // that multiply; one more fetches
constexpr int kThreads = (kGroups + 1) * kGroup;
constexpr int kQueries = 64;  // of a group
constexpr int kKeys = 64;
constexpr int kStages = 2;
constexpr int kPrepared = 16;  // rows of a block of `prepare`
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
  int32_t rows;
};

// A thread's dim of the values of a block's rows: as whole 32-byte runs of positions where the rows are one
// segment's and start at a multiple of 16.
__device__ __forceinline__ void append_values(const Params& p, int first, int rows, int kv_head, int dim) {
  const size_t width = 2 * (p.heads + p.kv_heads) * kHeadDim;
  const auto* from = reinterpret_cast<const unsigned short*>(p.projected) + first * width +
                     (2 * p.heads + p.kv_heads + kv_head) * kHeadDim + dim;
  const auto place = [&](int row) {
    const int position = p.pass.positions[row];
    const CacheView cache = cache_of(p.pass, p.pass.segment_of[row], p.layer, p.kv_heads);
    return cache.values(position / kPage, kv_head) + dim * kPage + position % kPage;
  };
  const bool whole = rows == kPrepared && p.pass.positions[first] % kPrepared == 0 &&
                     p.pass.segment_of[first] == p.pass.segment_of[first + kPrepared - 1];
  if (!whole) {
    for (int r = 0; r < rows; ++r) *place(first + r) = __ushort_as_bfloat16(from[r * width]);
    return;
  }
  uint32_t pairs[kPrepared / 2];
#pragma unroll
  for (int r = 0; r < kPrepared / 2; ++r) {
    pairs[r] = from[2 * r * width] | static_cast<uint32_t>(from[(2 * r + 1) * width]) << 16;
  }
  auto* to = reinterpret_cast<uint4*>(place(first));
  to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]};
  to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
}

// A block has 16 rows: a warp norms and rotates the queries and keys of one, a thread moves a dim's values of
// all.
__global__ void __launch_bounds__(32 * kPrepared) prepare_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const int first = blockIdx.x * kPrepared, rows = min(kPrepared, p.rows - first);
  for (int i = threadIdx.x; i < p.kv_heads * kHeadDim; i += blockDim.x) {
    append_values(p, first, rows, i / kHeadDim, i % kHeadDim);
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = first + warp;
  if (warp >= rows) return;
  const int position = p.pass.positions[row];
  const __nv_bfloat16* in = p.projected + static_cast<size_t>(row) * 2 * (p.heads + p.kv_heads) * kHeadDim;
  const HeadNorm q_norm(p.q_norm, p.frequencies, p.rotary_dim, p.epsilon);
  const Rotation rotation(q_norm, position);
  for (int head = 0; head < p.heads; ++head) {
    float v[8];
    load_head(v, in + 2 * head * kHeadDim);
    norm_and_rotate(v, q_norm, rotation);
#pragma unroll
    for (float& value : v) value *= 0.0625f;  // 256^-1/2, exact
    __nv_bfloat16* to = p.queries + (static_cast<size_t>(row) * p.heads + head) * kHeadDim;
    reinterpret_cast<uint4*>(to)[lane] = pack_head(v);
  }
  const CacheView cache = cache_of(p.pass, p.pass.segment_of[row], p.layer, p.kv_heads);
  const HeadNorm k_norm(p.k_norm, p.frequencies, p.rotary_dim, p.epsilon);
  for (int head = 0; head < p.kv_heads; ++head) {
    append_key(cache, head, position, packed_head(in + (2 * p.heads + head) * kHeadDim), k_norm, rotation);
  }
}

// Shared memory: each group's queries, then the stages of keys, then those of values, all bf16. Queries and
// keys are four slabs of 64 dims, [64 rows][64 dims]; values [256 dims][64 positions]. The 16-byte pieces of
// a 128-byte row are permuted by the row's number, as the products take it (wgmma.cuh).
constexpr int kSlab = kKeys * 128;
constexpr int kQueryBytes = kQueries * kHeadDim * 2;
constexpr int kKeyBytes = kKeys * kHeadDim * 2;
constexpr int kSharedBytes = kGroups * kQueryBytes + 2 * kStages * kKeyBytes + 1024;

__device__ __forceinline__ uint32_t piece_of_row(int row, int piece) {
  return 128 * row + 16 * (piece ^ (row % 8));
}

// The block's queries are numbered row by row, head by head.
struct Tile {
  SegmentInfo segment;
  int kv_head;
  int group;  // query heads of a KV head
  int first;  // row of the segment
  int rows;
  int blocks;  // of 64 positions, up to the last that any row sees

  __device__ __forceinline__ Tile(const Params& p, const SegmentInfo& s, int number, int kv)
      : segment(s), kv_head(kv), group(p.heads / p.kv_heads) {
    const int most = kGroups * kQueries / group;
    first = number * most;
    rows = min(most, s.rows - first);
    blocks = (s.position + first + rows + kKeys - 1) / kKeys;
  }
  // Of the tile; those past the end are the last one's.
  __device__ __forceinline__ int row_of(int query) const { return min(query / group, rows - 1); }
  __device__ __forceinline__ int head_of(int query) const { return kv_head * group + query % group; }
};

// Keys and values on their way through shared memory: a stage is full, then empty again.
struct Pipeline {
  uint32_t keys, values;                                      // of stage 0
  uint32_t full_keys, full_values, empty_keys, empty_values;  // barriers

  __device__ __forceinline__ Pipeline(uint32_t shared, uint64_t* barriers)
      : keys(shared),
        values(shared + kStages * kKeyBytes),
        full_keys(shared_address(barriers)),
        full_values(full_keys + 8 * kStages),
        empty_keys(full_values + 8 * kStages),
        empty_values(empty_keys + 8 * kStages) {}
};

// The fetching warps: two for keys, two for values.
__device__ __forceinline__ void fetch_keys_and_values(const Pipeline& pipe, const CacheView& cache,
                                                      const Tile& tile) {
  constexpr int kFetchers = kGroup / 2;
  const int i = threadIdx.x % kFetchers;
  const bool fetches_values = threadIdx.x % kGroup >= kFetchers;
  const uint32_t full = fetches_values ? pipe.full_values : pipe.full_keys,
                 empty = fetches_values ? pipe.empty_values : pipe.empty_keys;
  for (int block = 0; block < tile.blocks; ++block) {
    const int page = block * kKeys / kPage, in_page = block * kKeys % kPage, stage = block % kStages;
    const __nv_bfloat16* keys = cache.keys(page, tile.kv_head) + in_page * kHeadDim + 8 * i;
    const __nv_bfloat16* values = cache.values(page, tile.kv_head) + i / 8 * kPage + in_page + i % 8 * 8;
    barrier_wait(empty + 8 * stage, block / kStages % 2 ^ 1);
    if (fetches_values) {
      const uint32_t to = pipe.values + stage * kKeyBytes + piece_of_row(i / 8, i % 8);
#pragma unroll
      for (int k = 0; k < kHeadDim / 8; ++k) copy_async(to + k * 8 * 128, values + k * 8 * kPage);
    } else {
      const uint32_t to = pipe.keys + stage * kKeyBytes + i % 32 / 8 * kSlab;
#pragma unroll
      for (int k = 0; k < kKeys / 2; ++k) {
        copy_async(to + piece_of_row(i / 32 + 2 * k, i % 8), keys + 2 * k * kHeadDim);
      }
    }
    copy_async_commit();
    copy_async_wait<0>();
    publish_shared();
    barrier_arrive(full + 8 * stage);
  }
}

__device__ __forceinline__ void fetch_queries(uint32_t to, const Params& p, const Tile& tile, int group) {
  for (int i = threadIdx.x % kGroup; i < kQueries * 32; i += kGroup) {
    const int query = group * kQueries + i / 32, piece = i % 32;
    const size_t row = tile.segment.first_row + tile.first + tile.row_of(query);
    copy_async(to + piece / 8 * kSlab + piece_of_row(i / 32, piece % 8),
               p.queries + (row * p.heads + tile.head_of(query)) * kHeadDim + 8 * piece);
  }
  copy_async_commit();
  copy_async_wait<0>();
  publish_shared();
  barrier_of_group(group + 1, kGroup);
}

// scores[64 queries, 64 keys] of a group.
__device__ __forceinline__ void score(float (&scores)[8][4], uint32_t queries, uint32_t keys) {
#pragma unroll
  for (int u = 0; u < kHeadDim / 16; ++u) {
    const uint64_t a = next_columns(describe_rows(queries + u / 4 * kSlab), u % 4),
                   b = next_columns(describe_rows(keys + u / 4 * kSlab), u % 4);
    if (u == 0) {
      Product<64>::of_shared<0>(scores, a, b);
    } else {
      Product<64>::of_shared<1>(scores, a, b);
    }
  }
  products_commit();
}

// sums[64 queries, 2 x 128 dims] += probabilities values.
__device__ __forceinline__ void weigh(float (&sums)[2][16][4], const uint32_t weights[4][4],
                                      uint32_t values) {
#pragma unroll
  for (int u = 0; u < kKeys / 16; ++u) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Product<128>::add(sums[half], weights[u],
                        next_columns(describe_rows(values + half * kKeyBytes / 2), u));
    }
  }
  products_commit();
}

struct Softmax {
  float max[2] = {-INFINITY, -INFINITY};  // of queries i and i + 8
  float total[2] = {0, 0};
  float rescale[2];  // what the sums so far count for
};

// Takes the running maximum, turns scores into probabilities. `last[k]` is the last key of query i + 8 k,
// counted from the block's first.
template <bool kMasked>
__device__ __forceinline__ void soften(float (&scores)[8][4], Softmax& state, const int last[2]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float best = state.max[k];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& s = scores[n][2 * k + c];
        if (kMasked && 8 * n + 2 * t + c > last[k]) s = -INFINITY;
        best = fmaxf(best, s);
      }
    }
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
    // Rounded both times, so that an old maximum that stays gives exactly 1.
    const float from = __fmul_rn(best, kLog2E);
    state.rescale[k] = exp2_fast(__fmul_rn(state.max[k], kLog2E) - from);
    state.max[k] = best;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& s = scores[n][2 * k + c];
        s = exp2_fast(fmaf(s, kLog2E, -from));
        sum += s;
      }
    }
    state.total[k] = fmaf(state.total[k], state.rescale[k], sum);
  }
}

__device__ __forceinline__ void pack_weights(uint32_t weights[4][4], const float scores[8][4]) {
#pragma unroll
  for (int u = 0; u < 4; ++u) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float* pair = scores[2 * u + k / 2] + k % 2 * 2;
      weights[u][k] = pack_bf16(pair[0], pair[1]);
    }
  }
}

__device__ __forceinline__ void store_rows(const Params& p, const Tile& tile, const int queries[2],
                                           const float (&sums)[2][16][4], const Softmax& state) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float total = state.total[k];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (queries[k] / tile.group >= tile.rows) continue;
    const size_t row = tile.segment.first_row + tile.first + tile.row_of(queries[k]);
    const int head = tile.head_of(queries[k]);
    const __nv_bfloat16* gates =
        p.projected + row * 2 * (p.heads + p.kv_heads) * kHeadDim + (2 * head + 1) * kHeadDim;
    __nv_bfloat16* out = p.mixed + (row * p.heads + head) * kHeadDim;
    const float scale = 1.0f / total;
#pragma unroll
    for (int n = 0; n < 32; ++n) {
      const int d = 8 * n + 2 * t;
      const uint32_t gate = *reinterpret_cast<const uint32_t*>(gates + d);
      const float* pair = sums[n / 16][n % 16] + 2 * k;
      *reinterpret_cast<uint32_t*>(out + d) =
          pack_bf16(pair[0] * scale * sigmoid(low_float(gate)), pair[1] * scale * sigmoid(high_float(gate)));
    }
  }
}

// The multiplying warps.
__device__ __forceinline__ void attend_tile(const Pipeline& pipe, const Params& p, const Tile& tile,
                                            uint32_t queries, int group) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int lowest = group * kQueries + 16 * warp;  // query of the warp
  const int mine[2] = {lowest + lane / 4, lowest + lane / 4 + 8};
  const int start = tile.segment.position + tile.first;
  const int last[2] = {start + tile.row_of(mine[0]), start + tile.row_of(mine[1])};
  const int all_see = start + tile.row_of(lowest);
  fetch_queries(queries, p, tile, group);

  const auto release = [&](uint32_t barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };
  Softmax state;
  float scores[8][4], sums[2][16][4] = {};
  uint32_t weights[4][4];
  const auto soften_block = [&](int block) {
    const int in_block[2] = {last[0] - block * kKeys, last[1] - block * kKeys};
    if (block * kKeys + kKeys - 1 > all_see) {
      soften<true>(scores, state, in_block);
    } else {
      soften<false>(scores, state, in_block);
    }
  };
  barrier_wait(pipe.full_keys, 0);
  products_begin();
  score(scores, queries, pipe.keys);
  products_wait<0>();
  release(pipe.empty_keys);
  soften_block(0);
  pack_weights(weights, scores);
  for (int block = 1; block < tile.blocks; ++block) {
    const int stage = block % kStages, before = (block - 1) % kStages;
    barrier_wait(pipe.full_keys + 8 * stage, block / kStages % 2);
    products_begin();
    score(scores, queries, pipe.keys + stage * kKeyBytes);
    barrier_wait(pipe.full_values + 8 * before, (block - 1) / kStages % 2);
    products_begin();
    weigh(sums, weights, pipe.values + before * kKeyBytes);
    products_wait<1>();
    release(pipe.empty_keys + 8 * stage);
    soften_block(block);
    products_wait<0>();
    release(pipe.empty_values + 8 * before);
#pragma unroll
    for (int n = 0; n < 32; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[n / 16][n % 16][c] *= state.rescale[c / 2];
    }
    pack_weights(weights, scores);
  }
  const int end = tile.blocks - 1;
  barrier_wait(pipe.full_values + 8 * (end % kStages), end / kStages % 2);
  products_begin();
  weigh(sums, weights, pipe.values + end % kStages * kKeyBytes);
  products_wait<0>();
  store_rows(p, tile, mine, sums, state);
}

__global__ void __launch_bounds__(kThreads, 1) attend_many_kernel(const Params p) {
  extern __shared__ char memory[];
  __shared__ uint64_t barriers[4 * kStages];
  wait_for_previous();
  let_next_start();
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int number = gridDim.y - 1 - blockIdx.y;  // the longest first
  const Tile tile(p, segment, number, blockIdx.x);
  if (tile.rows <= 0) return;
  const uint32_t shared = (shared_address(memory) + 1023) / 1024 * 1024;
  const Pipeline pipe(shared + kGroups * kQueryBytes, barriers);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4 * kStages; ++i) {
      const bool full = i < 2 * kStages;
      barrier_init(shared_address(barriers + i), full ? kGroup / 2 : kGroups * kGroup / 32);
    }
  }
  __syncthreads();
  const int group = threadIdx.x / kGroup;
  if (group == kGroups) {
    fewer_registers<40>();
    fetch_keys_and_values(pipe, cache_of(p.pass, blockIdx.z, p.layer, p.kv_heads), tile);
  } else {
    more_registers<232>();
    attend_tile(pipe, p, tile, shared + group * kQueryBytes, group);
  }
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
  p.rows = static_cast<int32_t>(call.rows);
  const auto rows = static_cast<unsigned>(call.rows);
  queue.launch(prepare_kernel, {dim3((rows + kPrepared - 1) / kPrepared), 32 * kPrepared}, p);
  const int64_t tile_rows = kGroups * kQueries / (call.heads / call.kv_heads);
  const auto tiles = static_cast<unsigned>((call.max_segment_rows + tile_rows - 1) / tile_rows);
  queue.launch(attend_many_kernel,
               {dim3(static_cast<unsigned>(call.kv_heads), tiles, static_cast<unsigned>(pass.segment_count)),
                kThreads, kSharedBytes},
               p);
}

}  // namespace weir::cuda
