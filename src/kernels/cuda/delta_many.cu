// delta_rule, many rows, in five launches.
//
// prepare: a block has a row, a warp a head at a time: convolution, SiLU, l2 norms and gates. advance: moves
// the convolution window on. Then delta_chunk.cu and delta_scan.cu: the recurrence, 16 rows at a time.
// finish: gated norm. Bytes of prepare and finish: projections and results about once, from L2 where rows
// overlap. Rounding: q, k, v and the recurrence's output to bf16, float32 inside. Ceiling of prepare and
// finish: memory bandwidth.
#include "kernels/cuda/delta_many.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;

using Params = DeltaManyParams;

__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ void unpack4(float v[4], uint2 packed) {
  v[0] = low_float(packed.x), v[1] = high_float(packed.x), v[2] = low_float(packed.y),
  v[3] = high_float(packed.y);
}

// Lane's four channels of the 128 from `first` on, convolved.
__device__ __forceinline__ void convolve(float out[4], const Params& p, int row, const SegmentInfo& segment,
                                         const float* window, int first) {
  const int c = first + threadIdx.x % 32 * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = 0;
#pragma unroll
  for (int j = 0; j < kTaps; ++j) {
    const int back = kTaps - 1 - j, at = row - segment.first_row - back;  // in the segment
    float in[4];
    if (at >= 0) {
      unpack4(in,
              *reinterpret_cast<const uint2*>(p.projected + static_cast<size_t>(row - back) * p.width() + c));
    } else {
      const float4 v = *reinterpret_cast<const float4*>(window + (kTaps - 1 + at) * p.channels() + c);
      in[0] = v.x, in[1] = v.y, in[2] = v.z, in[3] = v.w;
    }
    const float4 tap = *reinterpret_cast<const float4*>(p.conv + j * p.channels() + c);
    out[0] = fmaf(tap.x, in[0], out[0]), out[1] = fmaf(tap.y, in[1], out[1]);
    out[2] = fmaf(tap.z, in[2], out[2]), out[3] = fmaf(tap.w, in[3], out[3]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = silu(out[i]);
}

// Stores the lane's four values times `scale` as bf16.
__device__ __forceinline__ void store4(const Params& p, int row, int first, const float v[4], float scale) {
  const uint2 packed{pack_bf16(v[0] * scale, v[1] * scale), pack_bf16(v[2] * scale, v[3] * scale)};
  reinterpret_cast<uint2*>(p.convolved + static_cast<size_t>(row) * p.channels() + first)[threadIdx.x % 32] =
      packed;
}

__device__ __forceinline__ float l2_scale(const float v[4]) {
  return rsqrtf(warp_sum(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]) + 1e-6f);
}

__device__ __forceinline__ void prepare_key_head(const Params& p, int row, const SegmentInfo& segment,
                                                 const float* window, int head) {
  float q[4], k[4];
  convolve(q, p, row, segment, window, head * kDeltaDim);
  convolve(k, p, row, segment, window, p.keys() + head * kDeltaDim);
  store4(p, row, head * kDeltaDim, q, l2_scale(q) * 0.08838834764831845f);  // 128^-1/2
  store4(p, row, p.keys() + head * kDeltaDim, k, l2_scale(k));
}

__device__ __forceinline__ void prepare_value_head(const Params& p, int row, const SegmentInfo& segment,
                                                   const float* window, int head) {
  float v[4];
  const int first = 2 * p.keys() + head * kDeltaDim;
  convolve(v, p, row, segment, window, first);
  store4(p, row, first, v, 1.0f);
  if (threadIdx.x % 32 > 0) return;
  const __nv_bfloat16* b =
      p.projected + static_cast<size_t>(row) * p.width() + p.channels() + p.value_heads * kDeltaDim;
  const float log_decay =
      -p.decay[head] * softplus(__bfloat162float(b[p.value_heads + head]) + p.dt_bias[head]);
  p.gates[static_cast<size_t>(row) * p.value_heads + head] = {log_decay, sigmoid(__bfloat162float(b[head]))};
}

__global__ void __launch_bounds__(kThreads) prepare_kernel(const Params p) {
  wait_for_previous();
  let_next_start();
  const int row = blockIdx.x, index = p.pass.segment_of[row];
  const SegmentInfo segment = p.pass.segments[index];
  const float* window = p.pass.conv[static_cast<size_t>(index) * p.pass.delta_layers + p.layer];
  for (int head = threadIdx.x / 32; head < p.key_heads + p.value_heads; head += kThreads / 32) {
    if (head < p.key_heads) {
      prepare_key_head(p, row, segment, window, head);
    } else {
      prepare_value_head(p, row, segment, window, head - p.key_heads);
    }
  }
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
  queue.launch(prepare_kernel, {dim3(rows), kThreads}, p);
  queue.launch(advance_kernel, {dim3((channels + kThreads - 1) / kThreads, segments), kThreads}, p);
  delta_chunks(queue, p, call.max_segment_rows);
  delta_scan(queue, p);
  queue.launch(finish_kernel, {dim3(rows), kThreads}, p);
}

}  // namespace weir::cuda
