// Many-row delta_rule, second part: what the recurrence needs to know about each 16 rows (delta_chunk.h).
//
// A warp has a chunk and a key head: both products of its rows on the tensor cores, straight from global
// memory, then for each value head that shares them the decays and a forward substitution, one column a lane.
// Bytes: q and k once, factors once. Rounding: q and k are bf16, sums and the substitution float32, solve and
// mix to bf16. Ceiling: latency; all chunks run side by side.
#include "kernels/cuda/delta_many.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kWarps = 4;

// The rows of a warp's chunk.
struct Chunk {
  int first_row;
  int count;
  size_t number;
};

// Left operand fragments of 16 rows of 128 columns; as a right operand (its transpose) register n of row
// block b is register b + 2 n.
__device__ __forceinline__ void load_rows(uint32_t a[8][4], const __nv_bfloat16* first, size_t stride,
                                          int count) {
  const int lane = threadIdx.x % 32, i = lane / 4, t = lane % 4;
#pragma unroll
  for (int step = 0; step < 8; ++step) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = i + 8 * (n % 2), col = 16 * step + 2 * t + 8 * (n / 2);
      a[step][n] = row < count ? *reinterpret_cast<const uint32_t*>(first + row * stride + col) : 0;
    }
  }
}

__device__ __forceinline__ void multiply_transposed(float c[2][4], const uint32_t a[8][4],
                                                    const uint32_t b[8][4]) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
    for (int step = 0; step < 8; ++step) multiply_add(c[n], a[step], b[step][n], b[step][n + 2]);
  }
}

struct WarpMemory {
  float sum[kChunkRows];  // G
  float beta[kChunkRows];
  float lower[kChunkRows][kChunkRows + 1];  // A
};

// G and beta of a value head.
__device__ __forceinline__ void load_gates(WarpMemory& m, const DeltaManyParams& p, const Chunk& chunk,
                                           int head) {
  const int lane = threadIdx.x % 32;
  float2 gate{0, 0};
  if (lane < chunk.count) gate = p.gates[static_cast<size_t>(chunk.first_row + lane) * p.value_heads + head];
  float sum = gate.x;
#pragma unroll
  for (int step = 1; step < kChunkRows; step *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane < kChunkRows) m.sum[lane] = sum, m.beta[lane] = gate.y;
  __syncwarp();
}

__device__ __forceinline__ void write_mix(ChunkFactors& out, WarpMemory& m, const float kk[2][4],
                                          const float qk[2][4]) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = lane / 4 + 8 * half;
      float mixed[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int j = 8 * n + 2 * t + c;
        const float decay = j <= i ? expf(m.sum[i] - m.sum[j]) : 0.0f;
        mixed[c] = decay * qk[n][2 * half + c];
        m.lower[i][j] = j < i ? m.beta[i] * decay * kk[n][2 * half + c] : 0.0f;
      }
      *reinterpret_cast<uint32_t*>(out.mix + i * kChunkRows + 8 * n + 2 * t) = pack_bf16(mixed[0], mixed[1]);
    }
  }
  __syncwarp();
}

// Column `lane % 16` of (1 + A)^-1, by forward substitution, times beta of that column.
__device__ __forceinline__ void write_solve(ChunkFactors& out, const WarpMemory& m) {
  const int column = threadIdx.x % 16;
  float x[kChunkRows];
#pragma unroll
  for (int i = 0; i < kChunkRows; ++i) {
    float value = i == column ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < i; ++j) value = fmaf(-m.lower[i][j], x[j], value);
    x[i] = value;
  }
  if (threadIdx.x % 32 >= kChunkRows) return;
#pragma unroll
  for (int i = 0; i < kChunkRows; ++i)
    out.solve[i * kChunkRows + column] = __float2bfloat16_rn(x[i] * m.beta[column]);
  out.decay[column] = expf(m.sum[column]);
  out.rest[column] = expf(m.sum[kChunkRows - 1] - m.sum[column]);
}

__global__ void __launch_bounds__(32 * kWarps) delta_chunk_kernel(const DeltaManyParams p) {
  __shared__ WarpMemory memory[kWarps];
  // The scan is not let in early: its few blocks would settle side by side wherever this kernel leaves room
  // first, instead of one on each multiprocessor.
  wait_for_previous();
  WarpMemory& m = memory[threadIdx.x / 32];
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int first = static_cast<int>(blockIdx.x) * kChunkRows,
            key_head = blockIdx.y * kWarps + threadIdx.x / 32;
  if (first >= segment.rows || key_head >= p.key_heads) return;
  const Chunk chunk{segment.first_row + first, min(kChunkRows, segment.rows - first),
                    static_cast<size_t>(first_chunk(segment.first_row, blockIdx.z)) + blockIdx.x};
  const __nv_bfloat16* row =
      p.convolved + static_cast<size_t>(chunk.first_row) * p.channels() + key_head * kDeltaDim;
  uint32_t q[8][4], k[8][4];
  load_rows(q, row, p.channels(), chunk.count);
  load_rows(k, row + p.keys(), p.channels(), chunk.count);
  float kk[2][4], qk[2][4];
  multiply_transposed(kk, k, k);
  multiply_transposed(qk, q, k);
  const int sharing = p.value_heads / p.key_heads;
  for (int head = key_head * sharing; head < (key_head + 1) * sharing; ++head) {
    ChunkFactors& out = p.factors[chunk.number * p.value_heads + head];
    load_gates(m, p, chunk, head);
    write_mix(out, m, kk, qk);
    write_solve(out, m);
    __syncwarp();
  }
}

}  // namespace

void delta_chunks(LaunchQueue& queue, const DeltaManyParams& p, int64_t max_segment_rows) {
  const auto chunks = static_cast<unsigned>((max_segment_rows + kChunkRows - 1) / kChunkRows);
  const auto heads = static_cast<unsigned>((p.key_heads + kWarps - 1) / kWarps);
  queue.launch(delta_chunk_kernel,
               {dim3(chunks, heads, static_cast<unsigned>(p.pass.segment_count)), 32 * kWarps}, p);
}

}  // namespace weir::cuda
