// What a block of the few-row attention works on, and what it takes from the projection.
#pragma once

#include "kernels/cuda/attention_heads.cuh"

namespace weir::cuda::few {

inline constexpr int kWarps = 8;
inline constexpr int kBlock = 128;  // positions

struct Params {
  PassView pass;
  const __nv_bfloat16* projected;
  __nv_bfloat16* mixed;
  char* staged;
  const float* q_norm;
  const float* k_norm;
  const float* frequencies;
  float* partial;
  int32_t* tickets;
  int32_t rotary_dim;
  int32_t heads;
  int32_t kv_heads;
  int32_t layer;
  float epsilon;
  int32_t unused;
};

struct Item {
  int row;
  int kv_head;
  int group;     // query heads
  int position;  // of the row
  int split;
  int splits;
  int first_block;
  int end_block;
};

__device__ __forceinline__ Item item_of(const Params& p) {
  Item item;
  item.row = blockIdx.z;
  item.kv_head = blockIdx.y;
  item.group = p.heads / p.kv_heads;
  item.position = p.pass.positions[item.row];
  const int blocks = item.position / kBlock + 1;
  int each = 1;
  while (each * kMaxSplits < blocks) each *= 2;
  item.split = blockIdx.x;
  item.splits = (blocks + each - 1) / each;
  item.first_block = item.split * each;
  item.end_block = min(blocks, item.first_block + each);
  return item;
}

__device__ __forceinline__ const __nv_bfloat16* projected_row(const Params& p, int row) {
  return p.projected + static_cast<size_t>(row) * 2 * (p.heads + p.kv_heads) * kHeadDim;
}

// New positions that a block writes: item i is a key, then a value, of position first + i / 2.
struct Appended {
  int first;
  int count;  // items

  __device__ __forceinline__ Appended(const Item& item, const SegmentInfo& segment)
      : first(max(segment.position, item.first_block * kBlock)),
        count(2 * max(0, min(item.position + 1, item.end_block * kBlock) - first)) {}

  __device__ __forceinline__ const __nv_bfloat16* from(const Params& p, const Item& item,
                                                       const SegmentInfo& segment, int i) const {
    const int row = segment.first_row + first + i / 2 - segment.position;
    return projected_row(p, row) + (2 * p.heads + item.kv_head + i % 2 * p.kv_heads) * kHeadDim;
  }
};

// What a warp takes from the projection, all asked for at once: its query head, that head's gate, and the
// first item that it appends.
struct Inputs {
  uint4 query{}, gate{}, appended{};

  __device__ __forceinline__ Inputs(const Params& p, const Item& item, const SegmentInfo& segment,
                                    const Appended& news) {
    const int warp = threadIdx.x / 32, head = item.kv_head * item.group + warp;
    if (warp < item.group) {
      query = packed_head(projected_row(p, item.row) + 2 * head * kHeadDim);
      gate = packed_head(projected_row(p, item.row) + (2 * head + 1) * kHeadDim);
    }
    if (warp < news.count) appended = packed_head(news.from(p, item, segment, warp));
  }
};

}  // namespace weir::cuda::few
