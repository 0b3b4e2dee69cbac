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

constexpr int kThreads = 128;
constexpr int kCarriers = 64;  // the last two warps
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

// What a carrier thread copies of each chunk: a 16-byte piece of q and of k in four rows, one of v, one or
// two of the factors. Its sources move on by whole chunks.
struct Carrier {
  const __nv_bfloat16* q;
  const __nv_bfloat16* v;
  const char* factors;
  size_t row_stride;  // elements
  size_t k_offset;
  size_t factor_stride;  // bytes
  int thread;
  int rows;  // left

  __device__ __forceinline__ Carrier(const DeltaManyParams& p, const Place& at) {
    thread = threadIdx.x - (kThreads - kCarriers);
    rows = at.rows;
    row_stride = p.channels();
    k_offset = p.keys();
    q = p.convolved + (at.first_row + thread / 16) * row_stride + at.key_head * kDeltaDim + thread % 16 * 8;
    v = p.convolved + (at.first_row + thread / 4) * row_stride + 2 * p.keys() + at.head * kDeltaDim +
        at.column + thread % 4 * 8;
    factors =
        reinterpret_cast<const char*>(p.factors + at.first_chunk * p.value_heads + at.head) + 16 * thread;
    factor_stride = p.value_heads * sizeof(ChunkFactors);
  }

  __device__ __forceinline__ void fetch(Stage& stage) {
    if (rows > 0) {
      const uint32_t q_to = shared_address(stage.q), k_to = shared_address(stage.k);
#pragma unroll
      for (int i = 0; i < kChunkRows / 4; ++i) {
        const int r = thread / 16 + 4 * i;
        const __nv_bfloat16* from = q + (r < rows ? 4 * i * row_stride : 0);
        copy_async_or_zero(q_to + piece_at(r, thread % 16), from, r < rows);
        copy_async_or_zero(k_to + piece_at(r, thread % 16), from + k_offset, r < rows);
      }
      const int r = thread / 4;
      copy_async_or_zero(shared_address(&stage.v[r][thread % 4 * 8]), r < rows ? v : q, r < rows);
#pragma unroll
      for (int at = 0; at < static_cast<int>(sizeof(ChunkFactors)); at += 16 * kCarriers) {
        if (at + 16 * thread < static_cast<int>(sizeof(ChunkFactors))) {
          copy_async(shared_address(&stage.factors) + at + 16 * thread, factors + at);
        }
      }
      q += kChunkRows * row_stride;
      v += kChunkRows * row_stride;
      factors += factor_stride;
      rows -= kChunkRows;
    }
    copy_async_commit();
  }
};

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

// out = S^T B^T, [16 columns, 16 rows], B the chunk's k or q; two chains of products a result, added at the
// end.
__device__ __forceinline__ void ask_state(float out[2][4], const uint32_t s[8][4], uint32_t rows) {
  const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8;
  float odd[2][4] = {};
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    uint32_t b[4];
    load_matrices(b, rows + piece_at(row, 2 * step + lane / 8 % 2));
    float(*to)[4] = step % 2 == 0 ? out : odd;
    multiply_add(to[0], s[step], b[0], b[1]);
    multiply_add(to[1], s[step], b[2], b[3]);
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) out[0][c] += odd[0][c], out[1][c] += odd[1][c];
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
  uint32_t operand[8][4];
#pragma unroll
  for (int step = 0; step < 8; ++step) as_operand(operand[step], s[2 * step], s[2 * step + 1]);
  ask_state(recalled, operand, shared_address(stage.k));
  ask_state(asked, operand, shared_address(stage.q));
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
  const bool carries = threadIdx.x >= kThreads - kCarriers;
  Carrier carrier(p, at);
  for (int c = 0; carries && c < kStages - 1; ++c) carrier.fetch(stages[c]);

  // Accumulator register c of block n: column i (+ 8), key 8 n + 2 t (+ 1).
  const int lane = threadIdx.x % 32;
  float* state = p.pass.recurrent[static_cast<size_t>(blockIdx.z) * p.pass.delta_layers + p.layer] +
                 static_cast<size_t>(head) * kDeltaDim * kDeltaDim + at.column + threadIdx.x / 32 % 2 * 16 +
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
    if (carries) copy_async_wait<kStages - 2>();
    __syncthreads();  // stage c is full, and stage c - 1 read
    if (carries) {
      carrier.fetch(stages[(c + kStages - 1) % kStages]);
    } else {
      run_chunk(s, stages[c % kStages], out + static_cast<size_t>(c) * kChunkRows * stride, stride,
                segment.rows - c * kChunkRows);
    }
  }
  if (carries) return;
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
