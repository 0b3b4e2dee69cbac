// linear, few rows: out[t] = f(x[t]) W^T for T <= 8, f an RMSNorm or nothing.
//
// Ownership: a block has 16 R rows of W, a warp 16 rows x 512 columns (few_rows.cuh); R is 2 for matrices of
// 2,048 columns and less, so that a block's rereading of x stays small beside its weights. Bytes: W once; x
// once a block, from L2. Rounding: x (after the norm) to bf16; products exact, sums float32; out to bf16, or
// float32 where it is added to the residual or a logit. Ceiling: memory bandwidth.
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kernels.h"

namespace weir::cuda {
namespace {

struct Params {
  TileMatrix w;
  const void* in;
  const float* gain;
  const int32_t* row_of;
  void* out;
  int32_t count;
  int32_t parts;
  int32_t row_tiles;  // of a block
  float epsilon;
};

template <TileKind kKind, Input kInput, Output kOutput>
__global__ void __launch_bounds__(256) linear_few_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int row_tile = blockIdx.x * p.row_tiles + warp / p.parts;
  const Part part = part_of(p.w, memory + warp * part_bytes(kKind), warp % p.parts);
  const bool has_rows = row_tile < p.w.row_tiles();
  if (has_rows) fetch_part<kKind>(p.w, part, row_tile);

  const StagedRows x(memory + warps * part_bytes(kKind), p.count, p.w.cols);
  if (threadIdx.x < 4) reinterpret_cast<uint32_t*>(x.zero())[threadIdx.x] = 0;
  if constexpr (kInput == Input::kNormed) {
    RowNorm norm(p.gain, p.w.cols);
    wait_for_previous();
    let_next_start();
    norm.stage(x, static_cast<const float*>(p.in), p.row_of, p.epsilon);
  } else {
    wait_for_previous();
    let_next_start();
    for (int t = 0; t < p.count; ++t) {
      const __nv_bfloat16* row = static_cast<const __nv_bfloat16*>(p.in) + static_cast<size_t>(t) * p.w.cols;
      stage_row(x, t, row, threadIdx.x, blockDim.x);
    }
  }
  __syncthreads();

  float acc[4] = {};
  if (has_rows) dot_part<kKind>(acc, part, x);
  __syncthreads();  // everyone has read its weights: their memory takes the sums
  float* sums = reinterpret_cast<float*>(memory);
  store_part(sums, acc, warp);
  __syncthreads();

  const int rows_here = p.row_tiles * kTileRows;
  for (int i = threadIdx.x; i < rows_here * p.count; i += blockDim.x) {
    const int t = i / rows_here, r = i % rows_here, row = blockIdx.x * rows_here + r;
    if (row >= p.w.rows) continue;
    float sum = 0;
    for (int k = 0; k < p.parts; ++k) {
      sum += sums[((r / kTileRows * p.parts + k) * kFewRows + t) * kTileRows + r % kTileRows];
    }
    const size_t at = static_cast<size_t>(t) * p.w.rows + row;
    if constexpr (kOutput == Output::kBf16) static_cast<__nv_bfloat16*>(p.out)[at] = __float2bfloat16_rn(sum);
    if constexpr (kOutput == Output::kFloat) static_cast<float*>(p.out)[at] = sum;
    if constexpr (kOutput == Output::kAdd) static_cast<float*>(p.out)[at] += sum;
  }
}

template <TileKind kKind>
void launch(LaunchQueue& queue, const Shape& shape, const Params& p, Input input, Output output) {
  if (input == Input::kNormed && output == Output::kBf16) {
    queue.launch(linear_few_kernel<kKind, Input::kNormed, Output::kBf16>, shape, p);
  } else if (input == Input::kNormed && output == Output::kFloat) {
    queue.launch(linear_few_kernel<kKind, Input::kNormed, Output::kFloat>, shape, p);
  } else {
    queue.launch(linear_few_kernel<kKind, Input::kPlain, Output::kAdd>, shape, p);
  }
}

}  // namespace

void linear_few(LaunchQueue& queue, const LinearCall& call) {
  Params p{};
  p.w = call.w;
  p.in = call.in;
  p.gain = call.gain;
  p.row_of = call.row_of;
  p.out = call.out;
  p.count = static_cast<int32_t>(call.rows);
  p.parts = parts_of(call.w.cols);
  p.row_tiles = p.parts <= 4 ? 2 : 1;
  p.epsilon = call.epsilon;
  const int warps = p.parts * p.row_tiles;
  Shape shape;
  shape.blocks = dim3((call.w.row_tiles() + p.row_tiles - 1) / p.row_tiles);
  shape.threads = 32 * warps;
  shape.shared = warps * part_bytes(call.w.kind) + StagedRows::bytes(p.count, call.w.cols);
  switch (call.w.kind) {
    case TileKind::kQ4:
      return launch<TileKind::kQ4>(queue, shape, p, call.input, call.output);
    case TileKind::kQ8:
      return launch<TileKind::kQ8>(queue, shape, p, call.input, call.output);
    case TileKind::kBf16:
      return launch<TileKind::kBf16>(queue, shape, p, call.input, call.output);
  }
}

}  // namespace weir::cuda
