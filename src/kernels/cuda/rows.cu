// Row-wise kernels: the embedding lookup, and RMSNorm for many rows.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/raw_value.cuh"
#include "kernels/cuda/staged_rows.cuh"

namespace weir::cuda {
namespace {

struct EmbedParams {
  float* x;
  const int32_t* tokens;
  RawMatrix embedding;
};

// A block has a row; bytes: one packed row in, H float32 out.
__global__ void embed_kernel(const EmbedParams p) {
  wait_for_previous();
  let_next_start();
  const int row = p.tokens[blockIdx.x];
  for (int c = threadIdx.x; c < p.embedding.cols; c += blockDim.x) {
    p.x[static_cast<size_t>(blockIdx.x) * p.embedding.cols + c] = raw_value(p.embedding, row, c);
  }
}

struct NormParams {
  __nv_bfloat16* out;
  const float* x;
  const float* gain;
  const int32_t* row_of;
  int32_t cols;
  float epsilon;
};

// A block has a row: read twice, the second time from L1, written once.
__global__ void __launch_bounds__(256) norm_rows_kernel(const NormParams p) {
  __shared__ float squares_of[8];
  wait_for_previous();
  let_next_start();
  const size_t from = p.row_of != nullptr ? p.row_of[blockIdx.x] : blockIdx.x;
  const float* row = p.x + from * p.cols;
  float squares = 0;
  for (int chunk = threadIdx.x; chunk < p.cols / 8; chunk += blockDim.x) {
    float v[8];
    load_chunk(v, row + 8 * chunk);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares = fmaf(v[i], v[i], squares);
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) squares_of[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) squares += squares_of[w];
  const float scale = rsqrtf(squares / static_cast<float>(p.cols) + p.epsilon);
  for (int chunk = threadIdx.x; chunk < p.cols / 8; chunk += blockDim.x) {
    float v[8], g[8];
    load_chunk(v, row + 8 * chunk);
    load_chunk(g, p.gain + 8 * chunk);
    uint4 packed;
    packed.x = pack_bf16(v[0] * scale * g[0], v[1] * scale * g[1]);
    packed.y = pack_bf16(v[2] * scale * g[2], v[3] * scale * g[3]);
    packed.z = pack_bf16(v[4] * scale * g[4], v[5] * scale * g[5]);
    packed.w = pack_bf16(v[6] * scale * g[6], v[7] * scale * g[7]);
    reinterpret_cast<uint4*>(p.out + static_cast<size_t>(blockIdx.x) * p.cols)[chunk] = packed;
  }
}

}  // namespace

void embed_rows(LaunchQueue& queue, float* x, const RawMatrix& embedding, const PassView& pass,
                int64_t rows) {
  queue.launch(embed_kernel, {dim3(static_cast<unsigned>(rows)), 1024},
               EmbedParams{x, pass.tokens, embedding});
}

void norm_rows(LaunchQueue& queue, __nv_bfloat16* out, const float* x, const float* gain, float epsilon,
               const int32_t* row_of, int64_t rows, int64_t cols) {
  queue.launch(norm_rows_kernel, {dim3(static_cast<unsigned>(rows)), 256},
               NormParams{out, x, gain, row_of, static_cast<int32_t>(cols), epsilon});
}

}  // namespace weir::cuda
