// Many-row delta_rule, third part: the recurrence, 16 rows at a time on the tensor cores, the state in
// registers from a segment's first row to its last.
//
// A warp has 16 columns of one value head's state, transposed: S^T [16 columns, 128 keys] as accumulators in
// float32. Packed to bf16 they are already a left operand, so with the factors of delta_chunk.h
//   S^T K^T and S^T Q^T;  U = V - decay K S;  N^T = U^T solve^T;  O^T = decay (S^T Q^T) + N^T mix^T;
//   S^T = decay_15 S^T + (rest N)^T K
// runs from registers to registers. A block has 32 columns, two warps; q, k, v and factors pass by in a ring
// of stages. Chunks count from the first row of the segment in this pass: cuts at multiples of 16 give equal
// bits. Bytes: q and k once a 32-column block, from L2, the state once a pass. Rounding: S, U, N to bf16 as
// operands, sums and the state itself float32. Ceiling: the latency of one chunk's chain of products on two
// of four schedulers.
#include "kernels/cuda/delta_many.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 64;
constexpr int kColumns = 32;
constexpr int kStages = 4;

// Rows of q and k have 256 bytes; their 16-byte pieces are permuted by the row, so that eight rows of one
// column lie in different banks.
struct Stage {
  char q[kChunkRows * 256];
  char k[kChunkRows * 256];
  __nv_bfloat16 v[kChunkRows][kColumns];
  ChunkFactors factors;
};

struct Place {
  int head;
  int key_head;
  int column;  // of the block
  int first_row;
  int rows;
  size_t first_chunk;
};

__device__ __forceinline__ uint32_t piece_at(int row, int piece) {
  return 256 * row + 16 * (piece ^ (row % 8));
}

__device__ __forceinline__ void fetch(Stage& stage, const DeltaManyParams& p, const Place& at, int chunk) {
  const int first = chunk * kChunkRows;
  if (first < at.rows) {
    const uint32_t q = shared_address(stage.q), k = shared_address(stage.k);
#pragma unroll
    for (int i = threadIdx.x; i < kChunkRows * 16; i += kThreads) {
      const int r = i / 16, piece = i % 16;
      const bool real = first + r < at.rows;
      const __nv_bfloat16* row = p.convolved +
                                 static_cast<size_t>(at.first_row + (real ? first + r : 0)) * p.channels() +
                                 at.key_head * kDeltaDim + 8 * piece;
      copy_async_or_zero(q + piece_at(r, piece), row, real);
      copy_async_or_zero(k + piece_at(r, piece), row + p.keys(), real);
    }
    const int r = threadIdx.x / 4, piece = threadIdx.x % 4;
    const bool real = first + r < at.rows;
    copy_async_or_zero(shared_address(&stage.v[r][8 * piece]),
                       p.convolved +
                           static_cast<size_t>(at.first_row + (real ? first + r : 0)) * p.channels() +
                           2 * p.keys() + at.head * kDeltaDim + at.column + 8 * piece,
                       real);
    const char* factors =
        reinterpret_cast<const char*>(p.factors + (at.first_chunk + chunk) * p.value_heads + at.head);
    for (int i = 16 * threadIdx.x; i < static_cast<int>(sizeof(ChunkFactors)); i += 16 * kThreads) {
      copy_async(shared_address(&stage.factors) + i, factors + i);
    }
  }
  copy_async_commit();
}

// Accumulators [16, 16] as a left operand.
__device__ __forceinline__ void as_operand(uint32_t a[4], const float low[4], const float high[4]) {
  a[0] = pack_bf16(low[0], low[1]);
  a[1] = pack_bf16(low[2], low[3]);
  a[2] = pack_bf16(high[0], high[1]);
  a[3] = pack_bf16(high[2], high[3]);
}

// c[n] += a b^T, b [16, 16] bf16 in shared memory: rows are the result's columns.
__device__ __forceinline__ void multiply_factor(float c[2][4], const uint32_t a[4], const __nv_bfloat16* b) {
  const int lane = threadIdx.x % 32;
  uint32_t r[4];
  load_matrices(r, shared_address(b + (lane % 8 + lane / 16 * 8) * kChunkRows + lane / 8 % 2 * 8));
  multiply_add(c[0], a, r[0], r[1]);
  multiply_add(c[1], a, r[2], r[3]);
}

// recalled = S^T K^T, asked = S^T Q^T, [16 columns, 16 rows] each.
__device__ __forceinline__ void ask_state(float recalled[2][4], float asked[2][4], const float s[16][4],
                                          const Stage& stage) {
  const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8;
  const uint32_t q = shared_address(stage.q), k = shared_address(stage.k);
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    uint32_t a[4], b[4];
    as_operand(a, s[2 * step], s[2 * step + 1]);
    load_matrices(b, k + piece_at(row, 2 * step + lane / 8 % 2));
    multiply_add(recalled[0], a, b[0], b[1]);
    multiply_add(recalled[1], a, b[2], b[3]);
    load_matrices(b, q + piece_at(row, 2 * step + lane / 8 % 2));
    multiply_add(asked[0], a, b[0], b[1]);
    multiply_add(asked[1], a, b[2], b[3]);
  }
}

// S^T = decay S^T + a K, a [16 columns, 16 rows].
__device__ __forceinline__ void update_state(float s[16][4], float decay, const uint32_t a[4],
                                             const Stage& stage) {
  const int lane = threadIdx.x % 32, row = lane % 16;
  const uint32_t k = shared_address(stage.k);
#pragma unroll
  for (int n = 0; n < 16; n += 2) {
    uint32_t b[4];
    load_matrices_transposed(b, k + piece_at(row, n + lane / 16));
#pragma unroll
    for (int c = 0; c < 4; ++c) s[n][c] *= decay, s[n + 1][c] *= decay;
    multiply_add(s[n], a, b[0], b[1]);
    multiply_add(s[n + 1], a, b[2], b[3]);
  }
}

__device__ __forceinline__ void run_chunk(float s[16][4], const Stage& stage, __nv_bfloat16* out,
                                          size_t stride, int count) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
  float recalled[2][4] = {}, asked[2][4] = {}, news[2][4] = {};
  ask_state(recalled, asked, s, stage);
  float decay[2][2], rest[2][2];
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      decay[n][c] = stage.factors.decay[8 * n + 2 * t + c];
      rest[n][c] = stage.factors.rest[8 * n + 2 * t + c];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float v = __bfloat162float(stage.v[8 * n + 2 * t + c % 2][16 * warp + i + c / 2 * 8]);
      recalled[n][c] = v - decay[n][c % 2] * recalled[n][c];
      asked[n][c] *= decay[n][c % 2];
    }
  }
  uint32_t a[4];
  as_operand(a, recalled[0], recalled[1]);
  multiply_factor(news, a, stage.factors.solve);
  as_operand(a, news[0], news[1]);
  multiply_factor(asked, a, stage.factors.mix);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) news[n][c] *= rest[n][c % 2];
  }
  as_operand(a, news[0], news[1]);
  update_state(s, stage.factors.decay[kChunkRows - 1], a, stage);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = 8 * n + 2 * t + c % 2;
      if (row < count) out[row * stride + 16 * warp + i + c / 2 * 8] = __float2bfloat16_rn(asked[n][c]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) delta_scan_kernel(const DeltaManyParams p) {
  extern __shared__ __align__(128) char memory[];
  Stage* stages = reinterpret_cast<Stage*>(memory);
  wait_for_previous();
  let_next_start();
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int head = blockIdx.y;
  const Place at{head,
                 head / (p.value_heads / p.key_heads),
                 static_cast<int>(blockIdx.x) * kColumns,
                 segment.first_row,
                 segment.rows,
                 static_cast<size_t>(first_chunk(segment.first_row, blockIdx.z))};
  const int chunks = (segment.rows + kChunkRows - 1) / kChunkRows;
  for (int c = 0; c < kStages - 1; ++c) fetch(stages[c], p, at, c);

  // Accumulator register c of block n: column i (+ 8), key 8 n + 2 t (+ 1).
  const int lane = threadIdx.x % 32;
  float* state = p.pass.recurrent[static_cast<size_t>(blockIdx.z) * p.pass.delta_layers + p.layer] +
                 static_cast<size_t>(head) * kDeltaDim * kDeltaDim + at.column + threadIdx.x / 32 * 16 +
                 lane / 4;
  const auto place_of = [&](int n, int c) {
    return (8 * n + 2 * (lane % 4) + c % 2) * kDeltaDim + c / 2 * 8;
  };
  float s[16][4];
#pragma unroll
  for (int n = 0; n < 16; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) s[n][c] = state[place_of(n, c)];
  }
  const size_t stride = static_cast<size_t>(p.value_heads) * kDeltaDim;
  __nv_bfloat16* out = p.mixed + segment.first_row * stride + head * kDeltaDim + at.column;
  for (int c = 0; c < chunks; ++c) {
    copy_async_wait<kStages - 2>();
    __syncthreads();
    fetch(stages[(c + kStages - 1) % kStages], p, at, c + kStages - 1);
    run_chunk(s, stages[c % kStages], out + static_cast<size_t>(c) * kChunkRows * stride, stride,
              segment.rows - c * kChunkRows);
  }
#pragma unroll
  for (int n = 0; n < 16; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) state[place_of(n, c)] = s[n][c];
  }
}

}  // namespace

void delta_scan(LaunchQueue& queue, const DeltaManyParams& p) {
  Shape shape;
  shape.blocks = dim3(kDeltaDim / kColumns, static_cast<unsigned>(p.value_heads),
                      static_cast<unsigned>(p.pass.segment_count));
  shape.threads = kThreads;
  shape.shared = kStages * sizeof(Stage);
  queue.launch(delta_scan_kernel, shape, p);
}

}  // namespace weir::cuda
