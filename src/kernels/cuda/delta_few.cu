// delta_rule, few rows: convolution, SiLU, gates, l2 norms, recurrence and gated norm in one launch.
//
// A block has one value head of one sequence and goes through its rows in order, its 128 x 128 state in
// registers: warp w has keys w, w + 16, ..., lane l columns 4 l .. 4 l + 3. State and convolution window are
// asked for before the wait (they were written a token ago). The results are also handed on as the product
// that follows takes them (staged_rows.cuh). With S the state before the row, S^T k and S^T q are summed
// together:
//   correction = beta (v - decay S^T k);  o = decay S^T q + (k q) correction;  S = decay S + k correction^T.
// The value heads that share a key head form a cluster: they read its part of the window before one of them
// moves it on. Bytes: the state, read and written once a pass. Rounding: float32 inside, mixed to bf16.
// Ceiling: memory bandwidth on 32 of 132 multiprocessors, and the latency of three barriers a row.
#include "kernels/cuda/staged_rows.cuh"

namespace weir::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kKeysOfWarp = kDeltaDim / kWarps;

struct Params {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  char* staged;
  const float* conv;
  const float* decay;
  const float* dt_bias;
  const float* norm;
  int32_t key_heads;
  int32_t value_heads;
  int32_t layer;
  float epsilon;
};

struct Memory {
  float qkv[3][kDeltaDim];
  float squares[8];  // q: 0 .. 3, k: 4 .. 7
  float decay, beta;
  float key_query[kWarps];
  alignas(16) float recalled[kWarps][kDeltaDim];
  alignas(16) float asked[kWarps][kDeltaDim];
  alignas(16) float correction[kDeltaDim];
  float out_squares[4];
  float out_tops[4];  // largest of 32 columns
};

__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

// One channel's window and taps, held by one thread.
struct Channel {
  int index = -1;
  float window[kTaps - 1];
  float taps[kTaps];

  __device__ __forceinline__ float next(float in) {
    float sum = taps[kTaps - 1] * in;
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) sum = fmaf(taps[j], window[j], sum);
#pragma unroll
    for (int j = 0; j < kTaps - 2; ++j) window[j] = window[j + 1];
    window[kTaps - 2] = in;
    return silu(sum);
  }
};

__device__ __forceinline__ Channel channel_of(const Params& p, int head, int key_head, const float* state,
                                              int channels) {
  Channel c;
  const int part = threadIdx.x / kDeltaDim, i = threadIdx.x % kDeltaDim, keys = p.key_heads * kDeltaDim;
  if (part >= 3) return c;
  c.index = part < 2 ? part * keys + key_head * kDeltaDim + i : 2 * keys + head * kDeltaDim + i;
#pragma unroll
  for (int j = 0; j < kTaps - 1; ++j) c.window[j] = state[j * channels + c.index];
#pragma unroll
  for (int j = 0; j < kTaps; ++j) c.taps[j] = p.conv[j * channels + c.index];
  return c;
}

__global__ void __launch_bounds__(kThreads) delta_few_kernel(const Params p) {
  __shared__ Memory m;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x, sharing = p.value_heads / p.key_heads, key_head = head / sharing;
  const int channels = (2 * p.key_heads + p.value_heads) * kDeltaDim;
  const int width = channels + p.value_heads * (kDeltaDim + 2);
  const size_t slot = static_cast<size_t>(blockIdx.y) * p.pass.delta_layers + p.layer;
  float* window = p.pass.conv[slot];
  float* state = p.pass.recurrent[slot] + static_cast<size_t>(head) * kDeltaDim * kDeltaDim;
  float4 s[kKeysOfWarp];
#pragma unroll
  for (int i = 0; i < kKeysOfWarp; ++i) {
    s[i] = reinterpret_cast<const float4*>(state + (warp + kWarps * i) * kDeltaDim)[lane];
  }
  Channel channel = channel_of(p, head, key_head, window, channels);
  const float head_decay = p.decay[head], dt_bias = p.dt_bias[head];
  const float norm = p.norm[threadIdx.x % kDeltaDim];
  const SegmentInfo segment = p.pass.segments[blockIdx.y];
  wait_for_previous();
  let_next_start();

  for (int row = segment.first_row; row < segment.first_row + segment.rows; ++row) {
    const __nv_bfloat16* in = p.projected + static_cast<size_t>(row) * width;
    float gate = 0;
    if (threadIdx.x < 3 * kDeltaDim) {
      const bool gates = threadIdx.x < kDeltaDim;
      const float z = gates ? __bfloat162float(in[channels + head * kDeltaDim + threadIdx.x]) : 0.0f;
      const float x = channel.next(__bfloat162float(in[channel.index]));
      m.qkv[threadIdx.x / kDeltaDim][threadIdx.x % kDeltaDim] = x;
      const float squares = warp_sum(x * x);
      if (lane == 0 && warp < 8) m.squares[warp] = squares;
      gate = norm * silu(z);
    } else if (threadIdx.x == 3 * kDeltaDim) {
      const __nv_bfloat16* b = in + channels + p.value_heads * kDeltaDim;
      const float a = __bfloat162float(b[p.value_heads + head]);
      m.beta = sigmoid(__bfloat162float(b[head]));
      m.decay = expf(-head_decay * softplus(a + dt_bias));
    }
    __syncthreads();
    if (row == segment.first_row) arrive_in_cluster();  // this block has read its windows

    const float q_scale =
        rsqrtf(m.squares[0] + m.squares[1] + m.squares[2] + m.squares[3] + 1e-6f) * 0.08838834764831845f;
    const float k_scale = rsqrtf(m.squares[4] + m.squares[5] + m.squares[6] + m.squares[7] + 1e-6f);
    const float decay = m.decay, beta = m.beta;
    float k[kKeysOfWarp], key_query = 0;
    float4 recalled{0, 0, 0, 0}, asked{0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kKeysOfWarp; ++i) {
      k[i] = m.qkv[1][warp + kWarps * i] * k_scale;
      const float q = m.qkv[0][warp + kWarps * i] * q_scale;
      key_query = fmaf(k[i], q, key_query);
      recalled.x = fmaf(k[i], s[i].x, recalled.x), asked.x = fmaf(q, s[i].x, asked.x);
      recalled.y = fmaf(k[i], s[i].y, recalled.y), asked.y = fmaf(q, s[i].y, asked.y);
      recalled.z = fmaf(k[i], s[i].z, recalled.z), asked.z = fmaf(q, s[i].z, asked.z);
      recalled.w = fmaf(k[i], s[i].w, recalled.w), asked.w = fmaf(q, s[i].w, asked.w);
    }
    reinterpret_cast<float4*>(m.recalled[warp])[lane] = recalled;
    reinterpret_cast<float4*>(m.asked[warp])[lane] = asked;
    if (lane == 0) m.key_query[warp] = key_query;
    __syncthreads();

    float out = 0;  // before its norm's factor
    if (threadIdx.x < kDeltaDim) {
      float back = 0, ask = 0, kq = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        back += m.recalled[w][threadIdx.x];
        ask += m.asked[w][threadIdx.x];
        kq += m.key_query[w];
      }
      const float correction = beta * (m.qkv[2][threadIdx.x] - decay * back);
      m.correction[threadIdx.x] = correction;
      out = fmaf(kq, correction, decay * ask);
      const float squares = warp_sum(out * out);
      out *= gate;
      const uint32_t top = __reduce_max_sync(0xffffffffu, __float_as_uint(fabsf(out)));
      if (lane == 0) m.out_squares[warp] = squares, m.out_tops[warp] = __uint_as_float(top);
    }
    __syncthreads();

    const float4 correction = reinterpret_cast<const float4*>(m.correction)[lane];
#pragma unroll
    for (int i = 0; i < kKeysOfWarp; ++i) {
      s[i].x = fmaf(k[i], correction.x, decay * s[i].x);
      s[i].y = fmaf(k[i], correction.y, decay * s[i].y);
      s[i].z = fmaf(k[i], correction.z, decay * s[i].z);
      s[i].w = fmaf(k[i], correction.w, decay * s[i].w);
    }
    if (threadIdx.x < kDeltaDim) {
      const float squares = m.out_squares[0] + m.out_squares[1] + m.out_squares[2] + m.out_squares[3];
      const float factor = rsqrtf(squares / kDeltaDim + p.epsilon);
      const int column = head * kDeltaDim + threadIdx.x, columns = p.value_heads * kDeltaDim;
      p.mixed[static_cast<size_t>(row) * columns + column] = __float2bfloat16_rn(out * factor);
      const float top = fmaxf(m.out_tops[warp], m.out_tops[warp ^ 1]);
      stage_column(StagedRows<TileKind::kQ4>::handed_on(p.staged, row, columns), column, out, top, factor);
    }
  }

#pragma unroll
  for (int i = 0; i < kKeysOfWarp; ++i) {
    reinterpret_cast<float4*>(state + (warp + kWarps * i) * kDeltaDim)[lane] = s[i];
  }
  wait_for_cluster();
  const bool moves_on = threadIdx.x >= 2 * kDeltaDim || head % sharing == 0;
  if (channel.index >= 0 && moves_on) {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) window[j * channels + channel.index] = channel.window[j];
  }
}

}  // namespace

void delta_few(LaunchQueue& queue, const DeltaCall& call, const PassView& pass) {
  Params p{};
  p.pass = pass;
  p.projected = call.projected;
  p.mixed = call.mixed;
  p.staged = call.staged;
  p.conv = call.conv;
  p.decay = call.decay;
  p.dt_bias = call.dt_bias;
  p.norm = call.norm;
  p.key_heads = static_cast<int32_t>(call.key_heads);
  p.value_heads = static_cast<int32_t>(call.value_heads);
  p.layer = static_cast<int32_t>(call.layer);
  p.epsilon = call.epsilon;
  Shape shape;
  shape.blocks = dim3(static_cast<unsigned>(call.value_heads), static_cast<unsigned>(pass.segment_count));
  shape.threads = kThreads;
  shape.cluster = static_cast<unsigned>(call.value_heads / call.key_heads);
  queue.launch(delta_few_kernel, shape, p);
}

}  // namespace weir::cuda
