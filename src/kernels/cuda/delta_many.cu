// delta_rule, many rows, in five launches.
//
// prepare: a warp has a head and 16 rows: convolution, SiLU, l2 norms and gates. advance: moves
// the convolution window on. Then delta_chunk.cu and delta_scan.cu: the recurrence, 16 rows at a time.
// finish: gated norm. Bytes of prepare and finish: projections and results about once, from L2 where rows
// overlap. Rounding: q, k, v and the recurrence's output to bf16, float32 inside. Ceiling of prepare and
// finish: memory bandwidth.
#include "kernels/cuda/delta_many.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 16;  // of a prepare block

using Params = DeltaManyParams;

__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ void unpack4(float v[4], uint2 packed) {
  v[0] = low_float(packed.x), v[1] = high_float(packed.x), v[2] = low_float(packed.y),
  v[3] = high_float(packed.y);
}

// A warp's 128 channels over consecutive rows: each lane has four, with their taps and the last inputs.
struct Convolution {
  float taps[kTaps][4];
  float window[kTaps - 1][4];  // oldest first

  __device__ __forceinline__ Convolution(const Params& p, const SegmentInfo& segment, const float* state,
                                         int first_channel, int row) {
    const int c = first_channel + threadIdx.x % 32 * 4;
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      put(taps[j], *reinterpret_cast<const float4*>(p.conv + j * p.channels() + c));
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) {
      const int at = row - segment.first_row - (kTaps - 1) + j;  // in the segment
      if (at >= 0) {
        unpack4(window[j], *reinterpret_cast<const uint2*>(input(p, segment.first_row + at, c)));
      } else {
        put(window[j], *reinterpret_cast<const float4*>(state + (kTaps - 1 + at) * p.channels() + c));
      }
    }
  }

  // SiLU of the row's convolution; the window moves on.
  __device__ __forceinline__ void next(float out[4], uint2 packed) {
    float in[4];
    unpack4(in, packed);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum = taps[kTaps - 1][i] * in[i];
#pragma unroll
      for (int j = 0; j < kTaps - 1; ++j) sum = fmaf(taps[j][i], window[j][i], sum);
#pragma unroll
      for (int j = 0; j < kTaps - 2; ++j) window[j][i] = window[j + 1][i];
      window[kTaps - 2][i] = in[i];
      out[i] = silu(sum);
    }
  }

  __device__ __forceinline__ static const __nv_bfloat16* input(const Params& p, int row, int channel) {
    return p.projected + static_cast<size_t>(row) * p.width() + channel;
  }
  __device__ __forceinline__ static void put(float v[4], float4 from) {
    v[0] = from.x, v[1] = from.y, v[2] = from.z, v[3] = from.w;
  }
};

__device__ __forceinline__ float l2_scale(const float v[4]) {
  return rsqrtf(warp_sum(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]) + 1e-6f);
}

// Log decay and beta of the row's value head.
__device__ __forceinline__ void write_gates(const Params& p, int row, int head) {
  const __nv_bfloat16* b = Convolution::input(p, row, p.channels() + p.value_heads * kDeltaDim);
  const float log_decay =
      -p.decay[head] * softplus(__bfloat162float(b[p.value_heads + head]) + p.dt_bias[head]);
  p.gates[static_cast<size_t>(row) * p.value_heads + head] = {log_decay, sigmoid(__bfloat162float(b[head]))};
}

// A warp has a head of q, k or v, in this order, and kRows rows.
__global__ void __launch_bounds__(kThreads) prepare_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int head = blockIdx.y * (kThreads / 32) + threadIdx.x / 32, first = blockIdx.x * kRows;
  if (first >= segment.rows || head >= 2 * p.key_heads + p.value_heads) return;
  const int value_head = head - 2 * p.key_heads, lane = threadIdx.x % 32;
  const float* state = p.pass.conv[static_cast<size_t>(blockIdx.z) * p.pass.delta_layers + p.layer];
  Convolution convolution(p, segment, state, head * kDeltaDim, segment.first_row + first);
  const int end = segment.first_row + min(first + kRows, segment.rows);
#pragma unroll 4
  for (int row = segment.first_row + first; row < end; ++row) {
    float v[4], scale = 1.0f;
    convolution.next(v, reinterpret_cast<const uint2*>(Convolution::input(p, row, head * kDeltaDim))[lane]);
    if (head < 2 * p.key_heads) scale = l2_scale(v);
    if (head < p.key_heads) scale *= 0.08838834764831845f;  // 128^-1/2
    uint2* to =
        reinterpret_cast<uint2*>(p.convolved + static_cast<size_t>(row) * p.channels() + head * kDeltaDim);
    to[lane] = {pack_bf16(v[0] * scale, v[1] * scale), pack_bf16(v[2] * scale, v[3] * scale)};
  }
  const int row = segment.first_row + first + lane;
  if (value_head >= 0 && row < end) write_gates(p, row, value_head);
}

// A thread has a channel.
__global__ void __launch_bounds__(kThreads) advance_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= p.channels()) return;
  const SegmentInfo segment = p.pass.segments[blockIdx.y];
  float* window = p.pass.conv[static_cast<size_t>(blockIdx.y) * p.pass.delta_layers + p.layer];
  float next[kTaps - 1];
#pragma unroll
  for (int j = 0; j < kTaps - 1; ++j) {
    const int at = segment.rows - (kTaps - 1) + j;
    next[j] = at >= 0
                  ? __bfloat162float(p.projected[static_cast<size_t>(segment.first_row + at) * p.width() + c])
                  : window[(at + kTaps - 1) * p.channels() + c];
  }
#pragma unroll
  for (int j = 0; j < kTaps - 1; ++j) window[j * p.channels() + c] = next[j];
}

// mixed = RMSNorm(mixed) silu(z); a warp has a head.
__global__ void __launch_bounds__(kThreads) finish_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const size_t row = blockIdx.x;
  const int lane = threadIdx.x % 32;
  const float4 gain = reinterpret_cast<const float4*>(p.norm)[lane];
  for (int head = threadIdx.x / 32; head < p.value_heads; head += kThreads / 32) {
    uint2* mixed = reinterpret_cast<uint2*>(p.mixed + (row * p.value_heads + head) * kDeltaDim) + lane;
    float o[4], z[4];
    unpack4(o, *mixed);
    unpack4(z, reinterpret_cast<const uint2*>(p.projected + row * p.width() + p.channels() +
                                              head * kDeltaDim)[lane]);
    const float squares = warp_sum(o[0] * o[0] + o[1] * o[1] + o[2] * o[2] + o[3] * o[3]);
    const float scale = rsqrtf(squares / kDeltaDim + p.epsilon);
    *mixed = {pack_bf16(o[0] * scale * gain.x * silu(z[0]), o[1] * scale * gain.y * silu(z[1])),
              pack_bf16(o[2] * scale * gain.z * silu(z[2]), o[3] * scale * gain.w * silu(z[3]))};
  }
}

}  // namespace

void delta_many(LaunchQueue& queue, const DeltaCall& call, const PassView& pass) {
  Params p{};
  p.pass = pass;
  p.projected = call.projected;
  p.mixed = call.mixed;
  p.conv = call.conv;
  p.decay = call.decay;
  p.dt_bias = call.dt_bias;
  p.norm = call.norm;
  p.convolved = call.convolved;
  p.gates = reinterpret_cast<float2*>(call.gates);
  p.key_heads = static_cast<int32_t>(call.key_heads);
  p.value_heads = static_cast<int32_t>(call.value_heads);
  p.layer = static_cast<int32_t>(call.layer);
  p.epsilon = call.epsilon;
  p.factors = static_cast<ChunkFactors*>(call.factors);
  const auto rows = static_cast<unsigned>(call.rows);
  const auto segments = static_cast<unsigned>(pass.segment_count);
  const auto channels = static_cast<unsigned>((2 * call.key_heads + call.value_heads) * kDeltaDim);
  const auto heads = static_cast<unsigned>(2 * call.key_heads + call.value_heads);
  const auto blocks = static_cast<unsigned>((call.max_segment_rows + kRows - 1) / kRows);
  constexpr unsigned kHeads = kThreads / 32;
  queue.launch(prepare_kernel, {dim3(blocks, (heads + kHeads - 1) / kHeads, segments), kThreads}, p);
  queue.launch(advance_kernel, {dim3((channels + kThreads - 1) / kThreads, segments), kThreads}, p);
  delta_chunks(queue, p, call.max_segment_rows);
  delta_scan(queue, p);
  queue.launch(finish_kernel, {dim3(rows), kThreads}, p);
}

}  // namespace weir::cuda
