// Sums of p_v E_v over the whole vocabulary for many rows, while it is walked panel by panel: as in a flash
// attention whose keys and values are the embeddings, a row's sum is kept relative to its largest y so far
// and rescaled when that grows.
//
// A token whose weight is below kNegligible of the row's present maximum counts as 0: V of them are at most
// 2^-22 of the sum of weights, about as much as its float32 terms are rounded by. A panel whose tokens count
// for none of 32 rows is neither decoded nor multiplied, and of the others only the tokens that count: nearly
// all of the work falls away once rows are certain, none of it while one of 32 is flat.
//
// Bound: 2 V' H flops for each row, V' being the tokens that any of its 31 neighbours needs. The sums of 32
// rows take 10 loads for 16 multiply-adds, so arithmetic is the bound. A panel is decoded once for all rows,
// with some 6 operations for 16 weights, a tenth of the arithmetic at 64 rows. Measured (head_bench, flat
// rows, 8 bits, one core with AVX-512): three quarters of the peak of multiply-adds in add_tokens, and with
// decoding and selection 66 % at 64 rows and 70 % at 256.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/cpu/row_belief.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vocabulary.h"

namespace weir::cpu {

inline constexpr float kNegligible = 0x1p-40f;

class ExpectedEmbeddings {
 public:
  // For at most `rows` rows of `cols`, and `panels` panels at once.
  static size_t scratch_bytes(int64_t rows, int64_t cols, int64_t panels, int threads);
  void place(Carver& scratch, int64_t rows, int64_t cols, int64_t panels, int threads);

  void begin(const PackedVocabulary& vocabulary, const HeadKernels& kernels, int64_t rows, ThreadPool& pool);

  // Filled by the caller for every row and panel of the next call of add.
  float* weights(int64_t row, int64_t panel) { return weights_ + (row * panels_ + panel) * kHeadPanel; }
  void set_rescale(int64_t row, int64_t panel, const Rescale& rescale);

  // Panels [first, first + count) of the vocabulary join the sums. Each runs on all threads; a panel's tokens
  // are added in ascending order, then the panel to the row's sum.
  void add(int64_t first, int64_t count, ThreadPool& pool);

  // out[cols] = factor * the row's sum.
  void read(float* out, int64_t row, float factor) const;

 private:
  // Of kRowTile rows and one panel: the tokens that weigh anything, and a bit for each 16 of the panel.
  struct Selection {
    int64_t count = 0;
    unsigned blocks = 0;
  };

  int64_t groups() const { return (rows_ + kRowTile - 1) / kRowTile; }
  int64_t group_rows(int64_t group) const { return std::min(kRowTile, rows_ - group * kRowTile); }
  int64_t tiles() const { return (vocabulary_->cols() + kColumnTile - 1) / kColumnTile; }
  int64_t slot(int64_t group, int64_t panel) const { return group * panels_ + panel; }
  float* sums(int64_t group, int64_t tile) const {
    return sums_ + (group * tiles() + tile) * kColumnTile * kRowTile;
  }

  void select(int64_t group, int64_t panel, int64_t count);
  void add_tile(int64_t first, int64_t panel, int64_t tile, float* columns) const;

  const PackedVocabulary* vocabulary_ = nullptr;
  const HeadKernels* kernels_ = nullptr;
  int64_t rows_ = 0;
  int64_t panels_ = 0;               // in a call of add
  float* sums_ = nullptr;            // [groups][tiles][kColumnTile][kRowTile]
  float* weights_ = nullptr;         // [rows][panels][kHeadPanel]
  float* panel_scales_ = nullptr;    // [groups][panels][kRowTile]
  float* rescales_ = nullptr;        // [groups][panels][kRowTile]
  float* selected_ = nullptr;        // [groups][panels][kHeadPanel][kRowTile]
  uint16_t* tokens_ = nullptr;       // [groups][panels][kHeadPanel]
  Selection* selections_ = nullptr;  // [groups][panels]
  float* columns_ = nullptr;         // [threads][kColumnTile][kHeadPanel]
};

}  // namespace weir::cpu
