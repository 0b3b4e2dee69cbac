#include "kernels/cpu/expected_embeddings.h"

#include <algorithm>

namespace weir::cpu {
namespace {

constexpr int64_t kPanelBlocks = kHeadPanel / kBlockRows;
constexpr int64_t kTileFloats = kColumnTile * kColumnStride;

struct Sizes {
  Sizes(int64_t rows, int64_t cols, int64_t panels, int threads)
      : padded_rows((rows + kRowTile - 1) / kRowTile * kRowTile),
        sums(padded_rows * ((cols + kColumnTile - 1) / kColumnTile * kColumnTile)),
        weights(padded_rows * panels * kHeadPanel),
        scales(padded_rows * panels),
        slots(padded_rows / kRowTile * panels),
        columns(threads * kTileFloats) {}
  int64_t padded_rows, sums, weights, scales, slots, columns;
};

}  // namespace

size_t ExpectedEmbeddings::scratch_bytes(int64_t rows, int64_t cols, int64_t panels, int threads) {
  const Sizes n(rows, cols, panels, threads);
  return carved_bytes(n.sums, sizeof(float)) + 2 * carved_bytes(n.weights, sizeof(float)) +
         2 * carved_bytes(n.scales, sizeof(float)) + carved_bytes(n.slots * kHeadPanel, sizeof(uint16_t)) +
         carved_bytes(n.slots, sizeof(Selection)) + carved_bytes(n.columns, sizeof(float));
}

void ExpectedEmbeddings::place(Carver& scratch, int64_t rows, int64_t cols, int64_t panels, int threads) {
  const Sizes n(rows, cols, panels, threads);
  panels_ = panels;
  sums_ = scratch.take<float>(n.sums);
  weights_ = scratch.take<float>(n.weights);
  selected_ = scratch.take<float>(n.weights);
  panel_scales_ = scratch.take<float>(n.scales);
  rescales_ = scratch.take<float>(n.scales);
  tokens_ = scratch.take<uint16_t>(n.slots * kHeadPanel);
  selections_ = scratch.take<Selection>(n.slots);
  columns_ = scratch.take<float>(n.columns);
}

void ExpectedEmbeddings::begin(const PackedVocabulary& vocabulary, const HeadKernels& kernels, int64_t rows,
                               ThreadPool& pool) {
  vocabulary_ = &vocabulary;
  kernels_ = &kernels;
  rows_ = rows;
  pool.run([&](int thread) {
    const Range mine = part_of(groups() * tiles(), thread, pool.threads());
    std::fill(sums(0, mine.begin), sums(0, mine.end), 0.0f);
  });
}

void ExpectedEmbeddings::set_rescale(int64_t row, int64_t panel, const Rescale& rescale) {
  const int64_t at = slot(row / kRowTile, panel) * kRowTile + row % kRowTile;
  panel_scales_[at] = rescale.panel;
  rescales_[at] = rescale.before;
}

// From the first `count` tokens of the panel. Rows beyond the last one weigh 0, and what their lanes of
// `rescales_` hold meets sums of 0.
void ExpectedEmbeddings::select(int64_t group, int64_t panel, int64_t count) {
  const int64_t at = slot(group, panel);
  const int64_t present = group_rows(group);
  const float* scales = panel_scales_ + at * kRowTile;
  float* rescales = rescales_ + at * kRowTile;
  std::fill(rescales + present, rescales + kRowTile, 1.0f);
  Selection selection;
  float* out = selected_ + at * kHeadPanel * kRowTile;
  uint16_t* tokens = tokens_ + at * kHeadPanel;
  // No weight exceeds 1 before it is scaled.
  const bool any = std::any_of(scales, scales + present, [](float s) { return !(s < kNegligible); });
  for (int64_t v = 0; any && v < count; ++v) {
    bool needed = false;
    for (int64_t lane = 0; lane < present; ++lane) {
      const float weight = weights(group * kRowTile + lane, panel)[v] * scales[lane];
      const bool counts = !(weight < kNegligible);
      out[lane] = counts ? weight : 0.0f;
      needed = needed || counts;
    }
    if (!needed) continue;
    std::fill(out + present, out + kRowTile, 0.0f);
    out += kRowTile;
    tokens[selection.count++] = static_cast<uint16_t>(v);
    selection.blocks |= 1u << (v / kBlockRows);
  }
  selections_[at] = selection;
}

// Without selected tokens a panel has not moved a maximum either, so that its rescaling is by 1.
void ExpectedEmbeddings::add_tile(int64_t first, int64_t panel, int64_t tile, float* columns) const {
  unsigned blocks = 0;
  for (int64_t g = 0; g < groups(); ++g) blocks |= selections_[slot(g, panel)].blocks;
  for (int64_t b = 0; b < kPanelBlocks; ++b) {
    if ((blocks >> b & 1u) == 0) continue;
    vocabulary_->decode_columns(columns + b * kBlockRows, kColumnStride, (first + panel) * kPanelBlocks + b,
                                tile * kColumnTile);
  }
  for (int64_t g = 0; g < groups(); ++g) {
    const int64_t at = slot(g, panel);
    if (selections_[at].count == 0) continue;
    kernels_->add_tokens(sums(g, tile), rescales_ + at * kRowTile, columns,
                         {tokens_ + at * kHeadPanel, selected_ + at * kHeadPanel * kRowTile,
                          selections_[at].count, group_rows(g)});
  }
}

void ExpectedEmbeddings::add(int64_t first, int64_t count, ThreadPool& pool) {
  pool.run([&](int thread) {
    const Range mine = part_of(groups() * count, thread, pool.threads());
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const int64_t panel = i % count;
      select(i / count, panel, std::min(kHeadPanel, vocabulary_->rows() - (first + panel) * kHeadPanel));
    }
  });
  pool.run([&](int thread) {
    const Range mine = part_of(tiles(), thread, pool.threads());
    float* columns = columns_ + thread * kTileFloats;
    for (int64_t panel = 0; panel < count; ++panel) {
      for (int64_t tile = mine.begin; tile < mine.end; ++tile) add_tile(first, panel, tile, columns);
    }
  });
}

// The last addition makes a zero of either sign the positive one: whether a row meets a product with 0
// depends on its neighbours.
void ExpectedEmbeddings::read(float* out, int64_t row, float factor) const {
  for (int64_t column = 0; column < vocabulary_->cols(); ++column) {
    const float* tile = sums(row / kRowTile, column / kColumnTile);
    out[column] = factor * tile[column % kColumnTile * kRowTile + row % kRowTile] + 0.0f;
  }
}

}  // namespace weir::cpu
