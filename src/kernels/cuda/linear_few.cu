// linear, few rows: out[t] = f(x[t]) W^T for T <= 8, f an RMSNorm or nothing.
//
// Ownership: a block has 16 R rows of W at a time, a warp 16 rows x 512 columns (few_rows.cuh); R is 2 where
// the block norms, so that its rereading of x stays small beside its weights. Matrices of more blocks than
// fit the GPU at once, the head, go by in turns: a block asks for its next weights before it computes with
// the present ones. Bytes: W once; x once a block, from L2. Rounding: x (after the norm) to bf16; products
// exact, sums float32; out to bf16, or float32 where it is added to the residual or a logit. Ceiling: memory
// bandwidth.
#include <algorithm>

#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kernels.h"

namespace weir::cuda {
namespace {

struct Params {
  TileMatrix w;
  const void* in;
  const char* staged;  // of kPlain: the rows as another kernel has staged them, or null
  const float* gain;
  const int32_t* row_of;
  void* out;
  int32_t count;
  int32_t parts;
  int32_t row_tiles;  // of a block at a time, 1 or 2
  float epsilon;
};

// Which row of W, within the block's turn, and which row of x a block's result number i is. Shifts, because a
// division would take its time between a turn's last barrier and its results.
struct Place {
  int w;
  int x;

  __device__ __forceinline__ Place(const Params& p, int i) {
    const int log_rows = p.row_tiles == 1 ? 4 : 5;
    w = i & ((1 << log_rows) - 1), x = i >> log_rows;
  }
};

constexpr int kMaxThreads = 512;
constexpr size_t kSharedOfMultiprocessor = 227 << 10;

// Of the residual stream, asked for long before it is needed.
__device__ __forceinline__ float value_before(const Params& p, int first_row) {
  const Place place(p, threadIdx.x);
  const int row = first_row + place.w;
  if (place.x >= p.count || row >= p.w.rows) return 0;
  return static_cast<const float*>(p.out)[static_cast<size_t>(place.x) * p.w.rows + row];
}

// After the wait. Returns what the thread's first result is added to.
template <TileKind kKind, Input kInput>
__device__ __forceinline__ float stage_input(const StagedRows<kKind>& x, const Params& p) {
  if constexpr (kInput == Input::kNormed) {
    const RowNorm norm(p.gain, p.w.cols);
    wait_for_previous();
    let_next_start();
    norm.stage(x, static_cast<const float*>(p.in), p.row_of);
    return 0;
  } else {
    wait_for_previous();
    let_next_start();
    const float before = value_before(p, blockIdx.x * p.row_tiles * kTileRows);
    if constexpr (has_planes(kKind)) {
      if (p.staged != nullptr) {
        x.take_over(p.staged, 0);
        copy_async_wait<0>();
        return before;
      }
    }
    for (int t = 0; t < p.count; ++t) {
      const __nv_bfloat16* row = static_cast<const __nv_bfloat16*>(p.in) + static_cast<size_t>(t) * p.w.cols;
      stage_row(x, t, row, threadIdx.x, blockDim.x);
    }
    return before;
  }
}

// Adds up the parts of each row of the block's turn, in order, and writes them. `before` is what the thread's
// first result is added to.
template <TileKind kKind, Input kInput, Output kOutput>
__device__ __forceinline__ void store_rows(const Params& p, const StagedRows<kKind>& x, const float* sums,
                                           int first_row, float before) {
  for (int i = threadIdx.x; i < p.row_tiles * kTileRows * p.count; i += blockDim.x) {
    const Place place(p, i);
    const int t = place.x, r = place.w, row = first_row + r;
    if (row >= p.w.rows) continue;
    const float* first = sums + (r / kTileRows * p.parts * kFewRows + t) * kTileRows + r % kTileRows;
    float sum = sum_of_parts(first, p.parts);
    if constexpr (kInput == Input::kNormed) sum *= RowNorm::factor(x, t);
    const size_t at = static_cast<size_t>(t) * p.w.rows + row;
    if constexpr (kOutput == Output::kBf16) static_cast<__nv_bfloat16*>(p.out)[at] = __float2bfloat16_rn(sum);
    if constexpr (kOutput == Output::kFloat) static_cast<float*>(p.out)[at] = sum;
    if constexpr (kOutput == Output::kAdd) {
      if (i != static_cast<int>(threadIdx.x)) before = static_cast<float*>(p.out)[at];
      static_cast<float*>(p.out)[at] = before + sum;
    }
  }
}

// Shared memory: the warps' parts, twice where blocks take turns; x; the sums.
template <TileKind kKind, Input kInput, Output kOutput, bool kTurns>
__global__ void __launch_bounds__(kMaxThreads) linear_few_kernel(const Params p) {
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, parts_bytes = warps * part_bytes(kKind);
  Part part = part_of(p.w, memory + warp * part_bytes(kKind), warp % p.parts);
  const int step = gridDim.x * p.row_tiles, end = p.w.row_tiles();
  int row_tile = blockIdx.x * p.row_tiles + warp / p.parts;
  if (row_tile < end) fetch_part<kKind>(p.w, part, row_tile);

  char* after = memory + (kTurns ? 2 : 1) * parts_bytes;
  const StagedRows<kKind> x(after, p.count, p.w.cols);
  x.clear_zeros(threadIdx.x);
  float* sums = reinterpret_cast<float*>(after + staged_bytes(p.count, p.w.cols));
  const float before = stage_input<kKind, kInput>(x, p);
  __syncthreads();
  if constexpr (kInput == Input::kNormed) RowNorm::find_factors(x, p.epsilon);

  for (int first = blockIdx.x * p.row_tiles, turn = 0; first < end; first += step, row_tile += step, ++turn) {
    const Part present = part;
    float acc[2][2] = {};
    if constexpr (kTurns) {
      part.shared = memory + (turn + 1) % 2 * parts_bytes + warp * part_bytes(kKind);
      if (row_tile + step < end) {
        fetch_part<kKind>(p.w, part, row_tile + step);
      } else {
        copy_async_commit();
      }
    }
    if (row_tile < end) dot_part<kKind, kTurns ? 1 : 0>(acc, present, x);
    store_part<kKind>(sums + turn % 2 * (warps * kFewRows * kTileRows), acc, warp);
    __syncthreads();
    store_rows<kKind, kInput, kOutput>(p, x, sums + turn % 2 * (warps * kFewRows * kTileRows),
                                       first * kTileRows, before);
  }
}

template <TileKind kKind>
void launch(LaunchQueue& queue, const Shape& shape, const Params& p, Input input, Output output) {
  if (input == Input::kNormed && output == Output::kBf16) {
    queue.launch(linear_few_kernel<kKind, Input::kNormed, Output::kBf16, false>, shape, p);
  } else if (input == Input::kNormed && output == Output::kFloat) {
    queue.launch(linear_few_kernel<kKind, Input::kNormed, Output::kFloat, true>, shape, p);
  } else {
    queue.launch(linear_few_kernel<kKind, Input::kPlain, Output::kAdd, false>, shape, p);
  }
}

}  // namespace

void linear_few(LaunchQueue& queue, const LinearCall& call) {
  Params p{};
  p.w = call.w;
  p.in = call.in;
  p.staged = call.w.kind == TileKind::kBf16 ? nullptr : call.staged;
  p.gain = call.gain;
  p.row_of = call.row_of;
  p.out = call.out;
  p.count = static_cast<int32_t>(call.rows);
  p.parts = parts_of(call.w.cols);
  p.row_tiles = call.input == Input::kNormed || p.parts <= 4 ? 2 : 1;
  p.epsilon = call.epsilon;
  const bool turns = call.output == Output::kFloat;
  const int warps = p.parts * p.row_tiles, copies = turns ? 2 : 1;
  const auto blocks = static_cast<unsigned>((call.w.row_tiles() + p.row_tiles - 1) / p.row_tiles);
  Shape shape;
  shape.threads = 32 * warps;
  shape.shared = copies * (warps * part_bytes(call.w.kind) + warps * kFewRows * kTileRows * 4) +
                 staged_bytes(p.count, call.w.cols);
  const auto resident =
      static_cast<unsigned>(std::max<size_t>(1, kSharedOfMultiprocessor / (shape.shared + 1024)));
  shape.blocks = dim3(turns ? std::min(blocks, resident * kMultiprocessors) : blocks);
  if (blocks <= kMultiprocessors) shape.shared = spread_out(shape.shared);
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
