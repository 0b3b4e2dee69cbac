// Token embeddings that are the output head too.
//
// One packed copy serves all three uses, in the layout of the head's products. For expected embeddings it is
// decoded column tile by column tile, which costs a few operations for each weight and is shared by all rows.
// A look-up reads the 16 rows of its block, some 50 KB, which takes a core 10 us; the 64 most probable tokens
// of each of 256 positions add a sixth to the head's time. A second copy by rows would save most of that, and
// costs 0.78 GB at 262144 tokens of 2816 8-bit weights.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/head_kernels.h"
#include "kernels/cpu/pack.h"
#include "kernels/steps.h"

namespace weir::cpu {

class PackedVocabulary final : public Vocabulary {
 public:
  PackedVocabulary(Buffer memory, const PackedMatrix& head, float scale, const HeadKernels& kernels,
                   std::string isa);

  int64_t rows() const override { return head_.rows; }
  int64_t cols() const override { return head_.cols; }
  uint64_t bytes() const override { return static_cast<uint64_t>(head_.bytes()); }
  std::string kernel() const override;

  // out[cols] = scale * the token's row, as decode_row has it.
  void look_up(float* out, int32_t token) const;

  // The embeddings as they are, without the scale.
  const PackedMatrix& head() const { return head_; }
  float scale() const { return scale_; }

  // Columns [column, column + kColumnTile) of block `block` (head_kernels.h); zeros beyond cols().
  void decode_columns(float* out, int64_t stride, int64_t block, int64_t column) const;

 private:
  Buffer memory_;
  PackedMatrix head_;
  float scale_;
  DecodeColumns decode_;
  std::string isa_;
};

// Errors: kUnsupported, for an encoding or shape that the kernels do not have; kOutOfMemory.
Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale,
                                                    const CpuKernels& kernels, std::string isa,
                                                    ThreadPool& pool);

}  // namespace weir::cpu
