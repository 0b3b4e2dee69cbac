#include "kernels/cpu/head_kernels.h"

#include "kernels/cpu/packed_lines.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/tiles.h"

namespace weir::cpu::WEIR_ISA {
namespace {

static_assert(kColumnTile == kLanes && kRowTile == 2 * kLanes && kBlockRows == kLanes);

// Vectors of sums that stay in registers, of which there are 32 of 512 bits, or 16 of 256.
#if defined(__AVX512F__)
constexpr int kSums = 16;
#else
constexpr int kSums = 4;
#endif

constexpr float kLowest = -3.402823466e38f;

PanelSums weigh_panel(float* logits, float* weights, int64_t count, const Capping& capping) {
  for (int64_t v = 0; v < count; v += kLanes) {
    const F32x16 y = set1(capping.factor) * tanh(set1(capping.inverse_cap) * load(logits + v));
    store(logits + v, y);
  }
  for (int64_t v = count; v < kHeadPanel; ++v) logits[v] = kLowest;
  F32x16 largest = load(logits);
  for (int64_t v = kLanes; v < kHeadPanel; v += kLanes) largest = max(largest, load(logits + v));
  PanelSums sums;
  sums.max = reduce_max(largest);
  F32x16 sum = set1(0.0f), moment = set1(0.0f);
  for (int64_t v = 0; v < kHeadPanel; v += kLanes) {
    const F32x16 distance = load(logits + v) - set1(sums.max);
    const F32x16 w = exp(distance);
    store(weights + v, w);
    sum = sum + w;
    moment = fma(w, distance, moment);
  }
  sums.sum = reduce_add(sum);
  sums.moment = reduce_add(moment);
  return sums;
}

// For `vectors` times 16 rows. Two vectors take 10 loads for 16 multiply-adds, one takes 17.
template <int vectors>
void add_weighed(float* sums, const float* rescale, const float* columns, const WeighedTokens& tokens) {
  constexpr int kColumns = kSums / vectors;
  for (int64_t i = 0; i < kColumnTile * kRowTile; i += kLanes) prefetch(sums + i);
  for (int64_t c = 0; c < kColumnTile; c += kColumns) {
    const float* first = columns + c * kColumnStride;
    F32x16 acc[kColumns][vectors];
    repeat<kSums>([&](int i) WEIR_INLINE_LAMBDA { acc[i / vectors][i % vectors] = set1(0.0f); });
    for (int64_t t = 0; t < tokens.count; ++t) {
      const float* element = first + tokens.tokens[t];
      F32x16 weight[vectors];
      repeat<vectors>(
          [&](int j) WEIR_INLINE_LAMBDA { weight[j] = load(tokens.weights + t * kRowTile + j * kLanes); });
      repeat<kColumns>([&](int i) WEIR_INLINE_LAMBDA {
        const F32x16 value = set1(element[i * kColumnStride]);
        repeat<vectors>([&](int j) WEIR_INLINE_LAMBDA { acc[i][j] = fma(value, weight[j], acc[i][j]); });
      });
    }
    repeat<kSums>([&](int i) WEIR_INLINE_LAMBDA {
      const int j = i % vectors;
      float* sum = sums + (c + i / vectors) * kRowTile + j * kLanes;
      store(sum, fma(load(sum), load(rescale + j * kLanes), acc[i / vectors][j]));
    });
  }
}

void add_tokens(float* sums, const float* rescale, const float* columns, const WeighedTokens& tokens) {
  const auto run = tokens.rows > kLanes ? add_weighed<2> : add_weighed<1>;
  run(sums, rescale, columns, tokens);
}

// An affine column, byte `j` of each lane.
template <int j>
WEIR_SIMD F32x16 column(I32x16 columns, const GroupScales& group) {
  return group.scales * to_f32(shift_right<8 * j>(columns) & set1_i32(255)) + group.biases;
}

// See linear_kernels.h for the layout. Lines may hold more columns than are wanted.
template <int bits>
void decode(float* out, int64_t stride, const EmbeddingBlock& block, int64_t from) {
  using L = Lines<bits>;
  constexpr int64_t kBytes = L::kLines * kLineBytes;
  const int64_t group_lines = block.group / L::kCols * kBytes;
  const uint8_t* first = block.data + from / block.group * (group_lines + scales_bytes(block.wide_scales));
  const GroupScales group = load_scales(first + group_lines, block.wide_scales);
  const int64_t begin = from % block.group;
  for (int64_t c = begin / L::kCols * L::kCols; c < begin + kColumnTile; c += L::kCols) {
    const uint8_t* lines = first + c / L::kCols * kBytes;
    prefetch(lines + kColumnTile * kBlockRows * bits / 8);
    L::visit(lines, [&](int i, U8x64 w) WEIR_INLINE_LAMBDA {
      const int64_t at = c + 4 * i - begin;
      if (L::kCols > kColumnTile && (at < 0 || at >= kColumnTile)) return;
      const I32x16 columns = lanes(w);
      float* to = out + at * stride;
      store(to, column<0>(columns, group));
      store(to + stride, column<1>(columns, group));
      store(to + 2 * stride, column<2>(columns, group));
      store(to + 3 * stride, column<3>(columns, group));
    });
  }
}

struct Bf16Column {
  using Value = uint16_t;
  WEIR_SIMD F32x16 read(const Value* p) { return load_bf16(p); }
};
struct F32Column {
  using Value = float;
  WEIR_SIMD F32x16 read(const Value* p) { return load(p); }
};

template <class Column>
void decode_plain(float* out, int64_t stride, const EmbeddingBlock& block, int64_t from) {
  const auto* values = reinterpret_cast<const typename Column::Value*>(block.data) + from * kBlockRows;
  for (int64_t c = 0; c < kColumnTile; ++c, out += stride) {
    store(out, from + c < block.cols ? Column::read(values + c * kBlockRows) : set1(0.0f));
  }
}

}  // namespace

extern constinit const HeadKernels kHeadKernels = {
    .weigh_panel = weigh_panel,
    .add_tokens = add_tokens,
    .decode = {decode<2>, decode<3>, decode<4>, decode<8>, decode_plain<Bf16Column>,
               decode_plain<F32Column>}};

}  // namespace weir::cpu::WEIR_ISA
