// config.json's quantisation section, and what it and the shapes say about a matrix.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/matrix.h"
#include "checkpoint/tensor.h"

namespace weir {

struct QuantizationRule {
  bool quantised = true;
  std::optional<int> bits;  // absent: whatever the shapes say
  std::optional<int> group;
  std::string mode = "affine";
};

// Keys "quantization" (MLX) or, as copied for the hub, "quantization_config": defaults and one entry per
// module that departs from them, {"bits": 8, "group_size": 64} or false.
class QuantizationSection {
 public:
  // `where` is config.json's path. Errors: kCorrupt; kUnsupported for another tool's section
  // ("quant_method").
  static Result<QuantizationSection> read(const nlohmann::json& config, std::string_view where);

  bool present() const { return defaults_.has_value(); }
  const std::optional<QuantizationRule>& defaults() const { return defaults_; }
  const QuantizationRule* find(std::string_view module) const;  // the module's own entry, by canonical path
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  std::optional<QuantizationRule> defaults_;
  std::map<std::string, QuantizationRule, std::less<>> modules_;
};

// The tensors of one matrix, and the file of `weight` for messages.
struct MatrixTensors {
  const TensorView* weight = nullptr;
  const TensorView* scales = nullptr;  // may be missing
  const TensorView* biases = nullptr;
  std::string file;
};

// The encoding of `module`, a matrix [rows, cols] after flattening leading dimensions. Bits and group follow
// from the shapes and must be what the module's entry says. A module without an entry is quantised when it
// has scales (mlx-lm's rule), whatever the defaults say. Errors: kCorrupt, kUnsupported.
Result<Encoding> resolve_encoding(std::string_view module, const MatrixTensors& tensors, int64_t rows,
                                  int64_t cols, const QuantizationSection& section);

}  // namespace weir
