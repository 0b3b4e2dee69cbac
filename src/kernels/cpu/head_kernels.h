// The inner loops of the output head over a tied vocabulary, and of the expected embedding. One source,
// compiled once for each instruction set; all give the same bits. Tokens come in panels of kHeadPanel.
#pragma once

#include <cstdint>

#include "kernels/cpu/linear_kernels.h"

namespace weir::cpu {

inline constexpr int64_t kHeadPanel = 256;  // kVocabularyPanel, whose header these sources may not include

// Columns of embeddings decoded together, floats from one to the next (not a power of two, so that they do
// not share the sets of a cache), and rows whose expected embeddings are summed together.
inline constexpr int64_t kColumnTile = 16;
inline constexpr int64_t kColumnStride = kHeadPanel + 16;
inline constexpr int64_t kRowTile = 32;

// y = factor * tanh(inverse_cap * z).
struct Capping {
  float inverse_cap = 0;
  float factor = 0;  // cap / temperature
};

// Of one row and one panel, with w = e^(y - max).
struct PanelSums {
  float max = 0;     // of y
  float sum = 0;     // of w
  float moment = 0;  // of w (y - max)
};

// 16 tokens of the vocabulary in the packed form of linear_kernels.h. Groups are multiples of kColumnTile.
struct EmbeddingBlock {
  const uint8_t* data = nullptr;
  int64_t cols = 0;
  int64_t group = 0;         // 0: plain
  bool wide_scales = false;  // float32
};

// out[c * stride + lane] = element `column` + c of token `lane`, for c < kColumnTile, 0 beyond `cols`; affine
// weights are scale * q rounded, then + bias rounded, as decode_row has them. `column` is a multiple of
// kColumnTile.
using DecodeColumns = void (*)(float* out, int64_t stride, const EmbeddingBlock& block, int64_t column);

// Some tokens of a panel and what they weigh for at most kRowTile rows; the others weigh 0.
struct WeighedTokens {
  const uint16_t* tokens = nullptr;  // [count], ascending, in the panel
  const float* weights = nullptr;    // [count][kRowTile]
  int64_t count = 0;
  int64_t rows = 0;
};

struct HeadKernels {
  // The first `count` of a panel's logits become y, and weights[kHeadPanel] becomes w; behind them y is
  // -FLT_MAX and w is 0. The sums run in 16 lanes, then in a tree.
  PanelSums (*weigh_panel)(float* logits, float* weights, int64_t count, const Capping& capping);

  // sums[c][row] = fma(sums[c][row], rescale[row], t), t = sum over the tokens, in their order, by fma from
  // 0, of columns[c][token] * weight of the row. columns [kColumnTile][kColumnStride], sums
  // [kColumnTile][kRowTile], rescale [kRowTile].
  void (*add_tokens)(float* sums, const float* rescale, const float* columns, const WeighedTokens& tokens);

  DecodeColumns decode[kContainers];  // by container
};

}  // namespace weir::cpu
