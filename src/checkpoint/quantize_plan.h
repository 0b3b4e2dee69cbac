// What a quantised checkpoint will hold: the tensors of a bfloat16 one under MLX's names and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantize_recipe.h"
#include "checkpoint/tensor.h"

namespace weir {

// One tensor of the output before it is quantised, made of rows of one tensor of the input: row r is the
// input's row (r / slice_rows) * source_slice_rows + first_row + r % slice_rows.
struct PlannedTensor {
  std::string name;  // as MLX spells it, without ".weight" when `precision` is affine
  const TensorView* source = nullptr;
  std::vector<int64_t> shape;
  int64_t slice_rows = 1, source_slice_rows = 1, first_row = 0;
  bool add_one = false;           // a norm's gain that Hugging Face stores less one
  Precision precision = {0, 64};  // plain: as the input has it
  std::string importance;         // canonical module path, in which importances are given

  int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const;
  // Of a plain tensor: the input's; bfloat16 for a float16 norm that changes.
  Dtype dtype() const { return add_one && source->dtype == Dtype::kF16 ? Dtype::kBf16 : source->dtype; }
  int64_t source_row(int64_t row) const {
    return row / slice_rows * source_slice_rows + first_row + row % slice_rows;
  }
};

struct QuantizePlan {
  std::vector<PlannedTensor> tensors;
  std::vector<std::string> notes;  // matrices that stay plain although the recipe has bits for them, and why
};

// Error: kUnsupported for a model of neither family.
Result<ModelFamily> model_family(const Checkpoint& checkpoint);

// Changes names and layout as MLX's converters do. Qwen: experts' gate and up apart, convolutions turned, 1
// added to zero-centred norms, vision left out; the multi-token prediction head changes likewise and keeps
// its names. A matrix whose rows are no whole number of groups stays as it is. Errors: kInvalidArgument when
// the checkpoint is quantised already, kCorrupt for a shape that its name does not allow.
Result<QuantizePlan> plan_quantization(const Checkpoint& checkpoint, ModelFamily family,
                                       const QuantizeRecipe& recipe);

}  // namespace weir
