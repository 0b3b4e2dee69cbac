// Pages of keys and values, laid out as attention_kernels.h says, and the partial sums over them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/state.h"

namespace weir::cpu {

static_assert(kPagePositions == kKvPage);

inline constexpr int64_t kPageLanes = 16;

// Of all heads.
inline size_t page_bytes(int64_t kv_heads, int64_t dim) {
  return static_cast<size_t>(2 * kKvPage * kv_heads * dim) * sizeof(uint16_t);
}

inline HeadPage head_page(const Buffer& page, int64_t kv_head, int64_t dim) {
  const uint16_t* keys = static_cast<const uint16_t*>(page.data()) + kv_head * 2 * kKvPage * dim;
  return {keys, keys + kKvPage * dim};
}

// Rounds one head's key and value [dim] to bfloat16 and puts them at `slot` of a page.
inline void store_position(const Buffer& page, int64_t kv_head, int64_t slot, const float* key,
                           const float* value, int64_t dim) {
  uint16_t* keys = static_cast<uint16_t*>(page.data()) + kv_head * 2 * kKvPage * dim;
  uint16_t* values = keys + kKvPage * dim;
  keys += slot / kPageLanes * dim * kPageLanes + slot % kPageLanes;
  for (int64_t d = 0; d < dim; ++d) keys[d * kPageLanes] = to_bf16(key[d]).bits;
  for (int64_t d = 0; d < dim; ++d) {
    values[(d / kPageLanes * kKvPage + slot) * kPageLanes + d % kPageLanes] = to_bf16(value[d]).bits;
  }
}

// Number `query` of an array of partials.
inline Partial partial_at(const Partial& first, int64_t query, int64_t dim) {
  return {first.max + query, first.sum + query, first.values + query * dim};
}

}  // namespace weir::cpu
