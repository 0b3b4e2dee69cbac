// A row of logits in the shared memory of a cluster, and what choosing asks of it (choose.cu).
#pragma once

#include <cooperative_groups.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ptx.cuh"

namespace weir::cuda::choice {

inline constexpr int kThreads = 1024;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kBlocks = 8;
inline constexpr int kBins = kThreads;
inline constexpr float kScale = 4294967296.0f;  // of probabilities
inline constexpr float kBinsPerUnit = 32;       // of (largest - logit) / temperature, in the first histogram
inline constexpr uint32_t kAll = 0xffffffffu;

using Sum = unsigned long long;

struct Largest {
  float value;
  int32_t id;
  int32_t bad;  // a NaN or an infinity was there
};

struct Memory {
  uint32_t histogram[2][2][kBins];  // [turn][low and high halves, or counts in the first]
  Sum of_warp[kWarps];
  Largest of_warp_largest[kWarps];
  Largest largest;  // of this block
  Sum total;        // of this block
  Sum above;
  uint32_t bin;
};

// Whole numbers in the order of the floats.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(uint32_t u) {
  return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
}

__device__ __forceinline__ Largest larger(const Largest& a, const Largest& b) {
  Largest out = b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
  out.bad = a.bad | b.bad;
  return out;
}

// Of all keys: the largest that a range starts with, how much lies above it.
struct Found {
  uint32_t key;
  Sum above;
};

// Ids of a block, a multiple of four.
__host__ __device__ constexpr int share_of(int64_t vocabulary) {
  return static_cast<int>((vocabulary + 4 * kBlocks - 1) / (4 * kBlocks) * 4);
}

// One block's view of the row.
class Row {
 public:
  __device__ Row(float* logits, Memory& memory, const ChoiceState& state, const float* from)
      : logits_(logits), m_(memory), state_(state) {
    const int rank = static_cast<int>(cluster_.block_rank());
    each_ = share_of(state.vocabulary);
    first_ = min(rank * each_, state.vocabulary);
    count_ = min(each_, state.vocabulary - first_);
    load(from);
  }

  __device__ const Largest& largest() const { return largest_; }

  __device__ Sum weight(float logit) const {
    return __float2ull_rn(expf((logit - largest_.value) / state_.temperature) * kScale);
  }

  // The sum of all weights of logits whose key is at least `key`.
  __device__ Sum weight_from(uint32_t key) {
    Sum sum = 0;
    for_all([&](float logit, uint32_t its_key) {
      if (its_key >= key) sum += weight(logit);
    });
    return over_cluster(sum);
  }

  // The largest key whose logits, with all larger ones, number `goal` or more; there are as many. Smaller
  // ones are left aside from then on.
  __device__ Found find_count(Sum goal) {
    skip_by_maxima(goal);
    return find<true>(goal);
  }
  // The same for a sum of weights.
  __device__ Found find_weight(Sum goal) { return find<false>(goal); }

  // Calls `chosen(id)` in the one thread that has the first token, in order of ids, with which the sum of
  // `measure(logit)` reaches `goal`.
  template <class Measure, class Chosen>
  __device__ void find_id(Sum goal, const Measure& measure, const Chosen& chosen) {
    const int each = (each_ + kThreads - 1) / kThreads | 1;  // odd: threads read different banks
    const int begin = threadIdx.x * each, end = min(begin + each, count_);
    Sum mine = 0;
    for (int i = begin; i < end; ++i) mine += measure(logits_[i]);
    const Sum through = scan(mine);
    Sum before = 0;
    share_total(through);
    for (unsigned r = 0; r < cluster_.block_rank(); ++r) before += *cluster_.map_shared_rank(&m_.total, r);
    Sum sum = before + through - mine;
    if (sum >= goal || sum + mine < goal) return;
    for (int i = begin; i < end; ++i) {
      sum += measure(logits_[i]);
      if (sum >= goal) return chosen(first_ + i);
    }
  }

 private:
  __device__ float processed(float logit, int id) const {
    if (state_.bias != nullptr) logit = __fadd_rn(logit, state_.bias[id]);
    if (state_.history == nullptr) return logit;
    const int seen = state_.history[id];
    if (seen == 0) return logit;
    if (state_.repetition_penalty != 1.0f) {
      logit = logit > 0 ? __fdiv_rn(logit, state_.repetition_penalty)
                        : __fmul_rn(logit, state_.repetition_penalty);
    }
    if (seen == 1) return logit;
    logit = __fsub_rn(logit, __fmul_rn(state_.frequency_penalty, static_cast<float>(seen - 1)));
    return __fsub_rn(logit, state_.presence_penalty);
  }

  __device__ void load(const float* from) {
    Largest best{-INFINITY, INT32_MAX, 0};
    const auto put = [&](int i, float raw) {
      const float logit = processed(raw, first_ + i);
      logits_[i] = logit;
      best = larger(best, {logit, first_ + i, raw < INFINITY ? 0 : 1});
    };
    const float4* packed = reinterpret_cast<const float4*>(from + first_);
#pragma unroll 4
    for (int i = threadIdx.x; i < count_ / 4; i += kThreads) {
      const float4 v = packed[i];
      put(4 * i, v.x), put(4 * i + 1, v.y), put(4 * i + 2, v.z), put(4 * i + 3, v.w);
    }
    for (int i = count_ / 4 * 4 + threadIdx.x; i < count_; i += kThreads) put(i, from[first_ + i]);
    most_ = best.value;
    const int here = (count_ - static_cast<int>(threadIdx.x) + kThreads - 1) / kThreads;
    mine_ = here > 0 ? ~uint64_t{0} >> (64 - here) : 0;
    for (int step = 16; step > 0; step /= 2) {
      best = larger(best, {__shfl_xor_sync(kAll, best.value, step), __shfl_xor_sync(kAll, best.id, step),
                           __shfl_xor_sync(kAll, best.bad, step)});
    }
    if (threadIdx.x % 32 == 0) m_.of_warp_largest[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (const Largest& other : m_.of_warp_largest) best = larger(best, other);
      m_.largest = best;
    }
    cluster_.sync();
    largest_ = *cluster_.map_shared_rank(&m_.largest, 0);
    for (unsigned r = 1; r < kBlocks; ++r) {
      largest_ = larger(largest_, *cluster_.map_shared_rank(&m_.largest, r));
    }
  }

  // Inclusive, over the block's threads.
  __device__ Sum scan(Sum value) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
      const Sum before = __shfl_up_sync(kAll, value, step);
      if (lane >= step) value += before;
    }
    if (lane == 31) m_.of_warp[warp] = value;
    __syncthreads();
    Sum before = lane < warp ? m_.of_warp[lane] : 0;
    for (int step = 16; step > 0; step /= 2) before += __shfl_xor_sync(kAll, before, step);
    __syncthreads();
    return value + before;
  }

  // The block's sum becomes visible to the cluster; `through` is inclusive.
  __device__ void share_total(Sum through) {
    cluster_.sync();  // the total before has been read
    if (threadIdx.x == kThreads - 1) m_.total = through;
    cluster_.sync();
  }

  __device__ Sum over_cluster(Sum value) {
    share_total(scan(value));
    Sum sum = 0;
    for (unsigned r = 0; r < kBlocks; ++r) sum += *cluster_.map_shared_rank(&m_.total, r);
    return sum;
  }

  // The smallest key of a bin of the first histogram; the last bin holds all that is left.
  __device__ uint32_t first_key(int bin) const {
    if (bin < 0) return ordered(largest_.value) + 1;
    if (bin >= kBins - 1) return 0;
    return ordered(
        fmaf(-(static_cast<float>(bin) + 1.0f) / kBinsPerUnit, state_.temperature, largest_.value));
  }
  __device__ int first_bin(float logit, uint32_t key) const {
    const float distance = (largest_.value - logit) / state_.temperature * kBinsPerUnit;
    int bin = static_cast<int>(fminf(distance, kBins - 1.0f));
    while (key < first_key(bin)) ++bin;
    while (key >= first_key(bin - 1)) --bin;
    return bin;
  }

  template <class Visit>
  __device__ __forceinline__ void for_all(const Visit& visit) const {
    for (uint64_t left = mine_; left != 0; left &= left - 1) {
      const float logit = logits_[threadIdx.x + kThreads * (__ffsll(static_cast<long long>(left)) - 1)];
      visit(logit, ordered(logit));
    }
  }

  __device__ void leave_aside_below(uint32_t key) {
    for (uint64_t left = mine_; left != 0; left &= left - 1) {
      const int k = __ffsll(static_cast<long long>(left)) - 1;
      if (ordered(logits_[threadIdx.x + kThreads * k]) < key) mine_ &= ~(uint64_t{1} << k);
    }
  }

  // Each thread's largest logit is one of the row's, so the goal-th largest of them bounds the row's from
  // below.
  __device__ void skip_by_maxima(Sum goal) {
    const int smallest_share = state_.vocabulary - (kBlocks - 1) * each_;
    if (smallest_share < 4 * kThreads || goal > kThreads * kBlocks / 2) return;
    clear();
    atomicAdd(&m_.histogram[turn_][0][first_bin(most_, ordered(most_))], 1u);
    cross(goal, 0);
    leave_aside_below(first_key(static_cast<int>(m_.bin)));
  }

  template <bool kCounts>
  __device__ Found find(Sum goal) {
    Sum above =
        descend<kCounts>(goal, 0, [this](float logit, uint32_t key) { return first_bin(logit, key); });
    uint32_t low = first_key(static_cast<int>(m_.bin)), high = first_key(static_cast<int>(m_.bin) - 1);
    while (high - low > 1) {
      const uint32_t range = high - low, top = high - 1;
      const int shift = max(0, 32 - __clz(range - 1) - 10);
      above = descend<kCounts>(goal, above, [=](float, uint32_t key) {
        return key >= low && key < high ? static_cast<int>((top - key) >> shift) : -1;
      });
      high = top - (m_.bin << shift) + 1;
      low = max(low, high - min(high, 1u << shift));
    }
    leave_aside_below(low);
    return {low, above};
  }

  // One histogram, bins in descending order of keys; then as cross().
  template <bool kCounts, class BinOf>
  __device__ Sum descend(Sum goal, Sum above, const BinOf& bin_of) {
    clear();
    uint32_t(&histogram)[2][kBins] = m_.histogram[turn_];
    for_all([&](float logit, uint32_t key) {
      const int bin = bin_of(logit, key);
      if (bin < 0) return;
      if constexpr (kCounts) {
        atomicAdd(&histogram[0][bin], 1u);
      } else if (const Sum w = weight(logit); w > 0) {
        atomicAdd(&histogram[0][bin], static_cast<uint32_t>(w) & 0xffff);
        atomicAdd(&histogram[1][bin], static_cast<uint32_t>(w >> 16));
      }
    });
    return cross(goal, above);
  }

  // Two histograms take turns: one is cleared while others may still read the one before.
  __device__ void clear() {
    turn_ ^= 1;
    m_.histogram[turn_][0][threadIdx.x] = m_.histogram[turn_][1][threadIdx.x] = 0;
    __syncthreads();
  }

  // Adds up the cluster's histograms. m.bin becomes the first with which `above` and the bins up to it reach
  // `goal`; returns what lies above it.
  __device__ Sum cross(Sum goal, Sum above) {
    uint32_t(&histogram)[2][kBins] = m_.histogram[turn_];
    cluster_.sync();
    Sum mine = 0;
#pragma unroll
    for (unsigned r = 0; r < kBlocks; ++r) {
      mine += *cluster_.map_shared_rank(&histogram[0][threadIdx.x], r);
      mine += static_cast<Sum>(*cluster_.map_shared_rank(&histogram[1][threadIdx.x], r)) << 16;
    }
    const Sum through = above + scan(mine);
    if (through >= goal && through - mine < goal) m_.bin = threadIdx.x, m_.above = through - mine;
    __syncthreads();
    return m_.above;
  }

  cooperative_groups::cluster_group cluster_ = cooperative_groups::this_cluster();
  float* logits_;
  Memory& m_;
  const ChoiceState& state_;
  Largest largest_;
  int each_, first_, count_;  // of a block's ids
  float most_;                // of this thread's logits
  uint64_t mine_;             // bit k: logit thread + 1024 k counts; others are missing or left aside
  int turn_ = 0;
};

}  // namespace weir::cuda::choice
