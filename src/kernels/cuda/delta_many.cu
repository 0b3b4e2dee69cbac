// delta_rule, many rows.
//
// prepare: a block has a row, a warp a head at a time: convolution, SiLU, l2 norms and gates. advance: moves
// the convolution window on. scan: the recurrence, token by token, its state in registers from the first row
// of the segment to the last: a warp has four columns of one value head's state, eight lanes a column, 16
// keys a lane (delta_few.cu has the algebra). Rows pass by in blocks of 16 through shared memory. finish:
// gated norm. Being sequential, the result does not depend on how a sequence is cut. Bytes: q, k, v once a
// 32-column block, from L2; the state once a pass. Rounding: q, k, v and the recurrence's output to bf16,
// float32 inside. Ceiling: instruction issue, two warps a scheduler; about 90 instructions and one
// reduction's latency a row.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;  // of a scan block
constexpr int kBlockRows = 16;

struct Params {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  const float* conv;
  const float* decay;
  const float* dt_bias;
  const float* norm;
  __nv_bfloat16* convolved;  // [T, channels]
  float4* gates;             // [T, value_heads]: decay, beta, k q
  int32_t key_heads;
  int32_t value_heads;
  int32_t layer;
  float epsilon;

  __device__ __forceinline__ int keys() const { return key_heads * kDeltaDim; }
  __device__ __forceinline__ int channels() const { return (2 * key_heads + value_heads) * kDeltaDim; }
  __device__ __forceinline__ int width() const { return channels() + value_heads * (kDeltaDim + 2); }
};

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

// Stores the lane's four values times `scale` as bf16, and returns them as stored.
__device__ __forceinline__ uint2 store4(const Params& p, int row, int first, const float v[4], float scale) {
  const uint2 packed{pack_bf16(v[0] * scale, v[1] * scale), pack_bf16(v[2] * scale, v[3] * scale)};
  reinterpret_cast<uint2*>(p.convolved + static_cast<size_t>(row) * p.channels() + first)[threadIdx.x % 32] =
      packed;
  return packed;
}

__device__ __forceinline__ float l2_scale(const float v[4]) {
  return rsqrtf(warp_sum(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]) + 1e-6f);
}

__device__ __forceinline__ void prepare_key_head(const Params& p, int row, const SegmentInfo& segment,
                                                 const float* window, int head) {
  float q[4], k[4];
  convolve(q, p, row, segment, window, head * kDeltaDim);
  convolve(k, p, row, segment, window, p.keys() + head * kDeltaDim);
  unpack4(q, store4(p, row, head * kDeltaDim, q, l2_scale(q) * 0.08838834764831845f));
  unpack4(k, store4(p, row, p.keys() + head * kDeltaDim, k, l2_scale(k)));
  const float key_query = warp_sum(q[0] * k[0] + q[1] * k[1] + q[2] * k[2] + q[3] * k[3]);
  const int sharing = p.value_heads / p.key_heads;
  if (threadIdx.x % 32 < sharing) {
    p.gates[static_cast<size_t>(row) * p.value_heads + head * sharing + threadIdx.x % 32].z = key_query;
  }
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
  float4& gate = p.gates[static_cast<size_t>(row) * p.value_heads + head];
  gate.x = expf(-p.decay[head] * softplus(__bfloat162float(b[p.value_heads + head]) + p.dt_bias[head]));
  gate.y = sigmoid(__bfloat162float(b[head]));
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

struct ScanBlock {
  float k[kBlockRows][kDeltaDim];
  float q[kBlockRows][kDeltaDim];
  float v[kBlockRows][kColumns];
  float4 gate[kBlockRows];
};

// What a thread carries from global to shared memory: eight k and q of one row, two v.
struct Carried {
  uint4 k, q;
  uint32_t v;
  float4 gate;
};

struct ScanPlace {
  int head;
  int key_head;
  int column;  // first of the block
  int first_row;
  int rows;
};

__device__ __forceinline__ Carried carry(const Params& p, const ScanPlace& at, int first) {
  Carried c{};
  const int r = threadIdx.x / 16, piece = threadIdx.x % 16;
  if (first + r >= at.rows) return c;
  const size_t row = at.first_row + first + r;
  const __nv_bfloat16* from = p.convolved + row * p.channels();
  c.q = reinterpret_cast<const uint4*>(from + at.key_head * kDeltaDim)[piece];
  c.k = reinterpret_cast<const uint4*>(from + p.keys() + at.key_head * kDeltaDim)[piece];
  c.v = reinterpret_cast<const uint32_t*>(from + 2 * p.keys() + at.head * kDeltaDim + at.column)[piece];
  if (piece == 0) c.gate = p.gates[row * p.value_heads + at.head];
  return c;
}

__device__ __forceinline__ void put8(float* to, uint4 packed) {
  reinterpret_cast<float4*>(to)[0] = {low_float(packed.x), high_float(packed.x), low_float(packed.y),
                                      high_float(packed.y)};
  reinterpret_cast<float4*>(to)[1] = {low_float(packed.z), high_float(packed.z), low_float(packed.w),
                                      high_float(packed.w)};
}

__device__ __forceinline__ void put(ScanBlock& block, const Carried& c) {
  const int r = threadIdx.x / 16, piece = threadIdx.x % 16;
  put8(block.k[r] + 8 * piece, c.k);
  put8(block.q[r] + 8 * piece, c.q);
  reinterpret_cast<float2*>(block.v[r])[piece] = {low_float(c.v), high_float(c.v)};
  if (piece == 0) block.gate[r] = c.gate;
}

__global__ void __launch_bounds__(kThreads) scan_kernel(const Params p) {
  __shared__ ScanBlock blocks[2];
  wait_for_previous();
  let_next_start();
  const SegmentInfo segment = p.pass.segments[blockIdx.z];
  const int head = blockIdx.y;
  const ScanPlace at{head, head / (p.value_heads / p.key_heads), static_cast<int>(blockIdx.x) * kColumns,
                     segment.first_row, segment.rows};
  const int lane = threadIdx.x % 32, group = lane % 8, column = threadIdx.x / 32 * 4 + lane / 8;
  float* state = p.pass.recurrent[static_cast<size_t>(blockIdx.z) * p.pass.delta_layers + p.layer] +
                 static_cast<size_t>(head) * kDeltaDim * kDeltaDim + at.column + column;
  // Keys 32 i + 4 group + e: eight lanes read 128 contiguous bytes of k.
  float s[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = state[(32 * (i / 4) + 4 * group + i % 4) * kDeltaDim];

  put(blocks[0], carry(p, at, 0));
  __syncthreads();
  for (int first = 0, turn = 0; first < at.rows; first += kBlockRows, turn ^= 1) {
    const Carried next = carry(p, at, first + kBlockRows);
    const ScanBlock& block = blocks[turn];
    const int count = min(kBlockRows, at.rows - first);
    __nv_bfloat16* out = p.mixed +
                         (static_cast<size_t>(at.first_row + first) * p.value_heads + head) * kDeltaDim +
                         at.column + column;
#pragma unroll 4
    for (int r = 0; r < count; ++r) {
      float k[16], q[16];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<float4*>(k + 4 * i) =
            *reinterpret_cast<const float4*>(block.k[r] + 32 * i + 4 * group);
        *reinterpret_cast<float4*>(q + 4 * i) =
            *reinterpret_cast<const float4*>(block.q[r] + 32 * i + 4 * group);
      }
      const float4 gate = block.gate[r];
      float recalled[2] = {0, 0}, asked[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        recalled[i % 2] = fmaf(k[i], s[i], recalled[i % 2]);
        asked[i % 2] = fmaf(q[i], s[i], asked[i % 2]);
      }
      float back = recalled[0] + recalled[1], ask = asked[0] + asked[1];
#pragma unroll
      for (int step = 1; step < 8; step *= 2) {
        back += __shfl_xor_sync(0xffffffffu, back, step);
        ask += __shfl_xor_sync(0xffffffffu, ask, step);
      }
      const float correction = gate.y * (block.v[r][column] - gate.x * back);
#pragma unroll
      for (int i = 0; i < 16; ++i) s[i] = fmaf(k[i], correction, gate.x * s[i]);
      if (group == 0) {
        out[static_cast<size_t>(r) * p.value_heads * kDeltaDim] =
            __float2bfloat16_rn(fmaf(gate.z, correction, gate.x * ask));
      }
    }
    put(blocks[turn ^ 1], next);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) state[(32 * (i / 4) + 4 * group + i % 4) * kDeltaDim] = s[i];
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
  p.gates = reinterpret_cast<float4*>(call.gates);
  p.key_heads = static_cast<int32_t>(call.key_heads);
  p.value_heads = static_cast<int32_t>(call.value_heads);
  p.layer = static_cast<int32_t>(call.layer);
  p.epsilon = call.epsilon;
  const auto rows = static_cast<unsigned>(call.rows), heads = static_cast<unsigned>(call.value_heads);
  const auto segments = static_cast<unsigned>(pass.segment_count);
  const auto channels = static_cast<unsigned>((2 * call.key_heads + call.value_heads) * kDeltaDim);
  queue.launch(prepare_kernel, {dim3(rows), kThreads}, p);
  queue.launch(advance_kernel, {dim3((channels + kThreads - 1) / kThreads, segments), kThreads}, p);
  queue.launch(scan_kernel, {dim3(kDeltaDim / kColumns, heads, segments), kThreads}, p);
  queue.launch(finish_kernel, {dim3(rows), kThreads}, p);
}

}  // namespace weir::cuda
