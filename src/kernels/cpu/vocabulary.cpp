#include "kernels/cpu/vocabulary.h"

#include <algorithm>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/memory.h"

namespace weir::cpu {

PackedVocabulary::PackedVocabulary(Buffer memory, const PackedMatrix& head, float scale,
                                   const HeadKernels& kernels, std::string isa)
    : memory_(std::move(memory)),
      head_(head),
      scale_(scale),
      decode_(kernels.decode[static_cast<int>(head.container)]),
      isa_(std::move(isa)) {}

std::string PackedVocabulary::kernel() const {
  return kernel_names(isa_, {&head_, 1});
}

void PackedVocabulary::decode_columns(float* out, int64_t stride, int64_t block, int64_t column) const {
  decode_(out, stride, {head_.block(block), head_.cols, head_.group, head_.wide_scales}, column);
}

void PackedVocabulary::look_up(float* out, int32_t token) const {
  const int64_t block = token / kBlockRows, lane = token % kBlockRows;
  float tile[kColumnTile * kBlockRows];
  for (int64_t column = 0; column < head_.cols; column += kColumnTile) {
    decode_columns(tile, kBlockRows, block, column);
    const int64_t count = std::min(kColumnTile, head_.cols - column);
    for (int64_t c = 0; c < count; ++c) out[column + c] = scale_ * tile[c * kBlockRows + lane];
  }
}

Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale,
                                                    const CpuKernels& kernels, std::string isa,
                                                    ThreadPool& pool) {
  WEIR_RETURN_IF_ERROR(check_packable(embedding));
  PackedMatrix head = plan_packing(embedding, Use::kProjection, kernels);
  WEIR_TRY(Buffer memory, allocate_pages(static_cast<size_t>(head.bytes())));
  head.data = static_cast<uint8_t*>(memory.data());
  pack_all({{head, embedding}}, pool);
  return std::unique_ptr<Vocabulary>(
      std::make_unique<PackedVocabulary>(std::move(memory), head, scale, kernels.head, std::move(isa)));
}

}  // namespace weir::cpu
