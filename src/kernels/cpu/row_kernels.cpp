#include "kernels/cpu/row_kernels.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

namespace weir::cpu::WEIR_ISA {
namespace {

// f(offset, n) for each run of up to 16 elements.
template <class F>
WEIR_SIMD void for_lanes(int64_t count, F f) {
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) f(c, kLanes);
  if (c < count) f(c, count - c);
}

// 1 / sqrt(mean(x^2) + epsilon)
WEIR_SIMD F32x16 norm_factor(const float* x, float epsilon, int64_t count) {
  F32x16 squares = set1(0.0f);
  for_lanes(count, [&](int64_t c, int64_t n) {
    const F32x16 v = load_first(x + c, n);
    squares = fma(v, v, squares);
  });
  const float mean = reduce_add(squares) / static_cast<float>(count);
  return set1(1.0f / __builtin_sqrtf(mean + epsilon));
}

void rms_norm(float* out, const float* x, const float* gain, float epsilon, int64_t count) {
  const F32x16 factor = norm_factor(x, epsilon, count);
  for_lanes(count, [&](int64_t c, int64_t n) {
    store_first(out + c, load_first(x + c, n) * factor * load_first(gain + c, n), n);
  });
}

void norm_add(float* x, const float* y, const float* gain, float epsilon, float scale, int64_t count) {
  const F32x16 factor = norm_factor(y, epsilon, count);
  for_lanes(count, [&](int64_t c, int64_t n) {
    const F32x16 normed = load_first(y + c, n) * factor * load_first(gain + c, n);
    store_first(x + c, (load_first(x + c, n) + normed) * set1(scale), n);
  });
}

// Largest |x| as a float's bits: non-negative floats are ordered as their bits are, and every NaN is above
// infinity.
int32_t largest_bits(const float* x, int64_t count) {
  I32x16 largest = set1_i32(0);
  for (int64_t c = 0; c < count; c += kLanes) largest = max(largest, bits(abs(load(x + c))));
  return reduce_max(largest);
}

// The low bits of t = fma(x, inverse, 1.5 * 2^23) are x * inverse rounded to the nearest integer, ties to
// even, in one rounding.
int32_t round_group(int8_t* q, const float* x, float inverse, int64_t count) {
  const F32x16 magic = set1(12582912.0f);
  I32x16 sum = set1_i32(0);
  for (int64_t c = 0; c < count; c += kLanes) {
    const I32x16 rounded = bits(fma(load(x + c), set1(inverse), magic)) - bits(magic);
    store_i8(q + c, rounded);
    sum = sum + rounded;
  }
  return reduce_add(sum);
}

void quantize(int8_t* q, float* scale, float* sum, const float* x, int64_t group, int64_t count) {
  constexpr int32_t kInfinityBits = 0x7f800000;
  constexpr float kTiny = 1e-30f;
  for (int64_t g = 0; g < count / group; ++g, q += group, x += group) {
    const int32_t largest = largest_bits(x, group);
    float magnitude;
    __builtin_memcpy(&magnitude, &largest, sizeof(magnitude));
    if (largest >= kInfinityBits || magnitude < kTiny) {
      for (int64_t c = 0; c < group; ++c) q[c] = 0;
      scale[g] = sum[g] = largest >= kInfinityBits ? __builtin_nanf("") : 0.0f;
      continue;
    }
    scale[g] = magnitude / 127.0f;
    sum[g] = scale[g] * static_cast<float>(round_group(q, x, 127.0f / magnitude, group));
  }
}

void group_sums(float* sum, const float* x, int64_t group, int64_t count) {
  for (int64_t g = 0; g < count / group; ++g, x += group) {
    F32x16 total = set1(0.0f);
    for (int64_t c = 0; c < group; c += kLanes) total = total + load(x + c);
    sum[g] = reduce_add(total);
  }
}

void silu_multiply(float* out, const float* gate, const float* up, int64_t count) {
  for_lanes(count, [&](int64_t c, int64_t n) {
    store_first(out + c, silu(load_first(gate + c, n)) * load_first(up + c, n), n);
  });
}

void gelu_multiply(float* out, const float* gate, const float* up, int64_t count) {
  for_lanes(count, [&](int64_t c, int64_t n) {
    store_first(out + c, gelu(load_first(gate + c, n)) * load_first(up + c, n), n);
  });
}

void add_weighted(float* x, const float* weights, const float* y, int64_t stride, int64_t slots,
                  int64_t count) {
  for_lanes(count, [&](int64_t c, int64_t n) {
    F32x16 sum = set1(0.0f);
    for (int64_t s = 0; s < slots; ++s) {
      sum = fma(set1(weights[s]), load_first(y + s * stride + c, n), sum);
    }
    store_first(x + c, load_first(x + c, n) + sum, n);
  });
}

// Keeps weights[0, kept) (logits for now) in falling order; a new one goes behind its equals.
void insert(int32_t* ids, float* weights, int64_t kept, int32_t id, float logit) {
  int64_t at = kept;
  for (; at > 0 && logit > weights[at - 1]; --at) {
    ids[at] = ids[at - 1];
    weights[at] = weights[at - 1];
  }
  ids[at] = id;
  weights[at] = logit;
}

void route(int32_t* ids, float* weights, const float* logits, int64_t experts, int64_t top_k) {
  for (int64_t e = 0; e < experts; ++e) {
    const auto id = static_cast<int32_t>(e);
    if (e < top_k) {
      insert(ids, weights, e, id, logits[e]);
    } else if (logits[e] > weights[top_k - 1]) {
      insert(ids, weights, top_k - 1, id, logits[e]);
    }
  }
  const F32x16 largest = set1(weights[0]);
  float sum = 0;
  for_lanes(top_k, [&](int64_t c, int64_t n) {
    store_first(weights + c, exp(load_first(weights + c, n) - largest), n);
  });
  for (int64_t s = 0; s < top_k; ++s) sum += weights[s];
  for (int64_t s = 0; s < top_k; ++s) weights[s] /= sum;
}

float sigmoid_of(float x) {
  return reduce_max(sigmoid(set1(x)));
}

}  // namespace

extern constinit const RowKernels kRowKernels = {
    rms_norm, quantize, group_sums, norm_add, silu_multiply, gelu_multiply, add_weighted, route, sigmoid_of};

}  // namespace weir::cpu::WEIR_ISA
