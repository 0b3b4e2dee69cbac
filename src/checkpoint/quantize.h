// Quantises a bfloat16 checkpoint: a new folder in MLX's layout, which mlx-lm and mlx-vlm load too.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantize_recipe.h"

namespace weir {

enum class ScaleRule {
  kMlx,     // MLX's own, bit for bit (affine.h)
  kSearch,  // quantize_search.h
};

// How much an error in each column of a matrix matters, by the matrix's canonical path in MLX's layout
// ("model.layers.0.mlp.switch_mlp.up_proj"): `cols` numbers, or `cols` for each expert of a stack.
using Importance = std::map<std::string, std::vector<float>, std::less<>>;

struct QuantizeJob {
  ScaleRule rule = ScaleRule::kMlx;
  Importance importance;  // for kSearch; a matrix that is not named has columns that matter alike
};

struct QuantizeReport {
  uint64_t bytes = 0;                     // of all tensors written
  int64_t matrices = 0;                   // quantised
  std::vector<std::string> plain_though;  // QuantizePlan::notes
};

// Writes the quantised `checkpoint` to `folder`, which is empty or does not exist, with its own config.json
// and the other text files of the input's folder (tokenizer, generation_config.json). Values are rounded to
// bfloat16 first, as mlx_lm.convert does. Takes a few MiB for each thread beside what is mapped, and the
// scales of one matrix. `progress` counts bytes written. Errors: kInvalidArgument for a checkpoint that is
// quantised already and a folder that is not empty, kCorrupt for NaN and infinity, kCancelled, and those of
// SafetensorsWriter; nothing is left of the output then.
Result<QuantizeReport> quantize(const Checkpoint& checkpoint, const std::string& folder,
                                const QuantizeRecipe& recipe, const QuantizeJob& job, ThreadPool& pool,
                                const Progress& progress, const std::atomic<bool>& cancelled);

}  // namespace weir
