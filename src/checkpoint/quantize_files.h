// The files of a quantised checkpoint that are not weights.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantize_plan.h"

namespace weir {

struct TextFile {
  std::string name;
  std::string text;
};

// config.json as MLX's converters write it: the input's, with the section `quantization` (twice, the hub
// reads "quantization_config"), the end tokens of generation_config.json, and without vision_config for Qwen.
Result<TextFile> quantized_config(const Checkpoint& checkpoint, ModelFamily family, const Precision& base,
                                  const QuantizePlan& plan);

// Tokenizer, templates, generation settings: the folder's .json, .jinja and .txt files but config.json and
// the index of its shards. Errors: kCorrupt for one that is larger than 64 MiB, kNotFound.
Result<std::vector<TextFile>> copied_files(const std::string& folder);

}  // namespace weir
