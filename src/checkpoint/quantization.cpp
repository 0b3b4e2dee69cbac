#include "checkpoint/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/json_fields.h"
#include "checkpoint/names.h"
#include "checkpoint/quote.h"

namespace weir {
namespace {

using nlohmann::json;

Result<QuantizationRule> read_rule(const json& entry, const std::string& where) {
  QuantizationRule rule;
  if (json_has(entry, "bits")) {
    WEIR_TRY(const int64_t bits, json_int(entry, "bits", 1, 32, where));
    rule.bits = static_cast<int>(bits);
  }
  if (json_has(entry, "group_size")) {
    WEIR_TRY(const int64_t group, json_int(entry, "group_size", 1, 1 << 20, where));
    rule.group = static_cast<int>(group);
  }
  WEIR_TRY(rule.mode, json_string_or(entry, "mode", where, "affine"));
  return rule;
}

Error contradiction(std::string_view module, const MatrixTensors& tensors, std::string_view where,
                    const std::string& stored, const std::string& configured) {
  return Error{Code::kCorrupt,
               fmt::format("{}: {} is stored {}, but {} says {}", tensors.file, quote(module), stored, where,
                           configured),
               "config.json and the weights are of different conversions; take both from one"};
}

std::string rule_text(const QuantizationRule& rule) {
  const auto number = [](const std::optional<int>& n) { return n ? std::to_string(*n) : std::string("?"); };
  return fmt::format("{} {}-bit in groups of {}", rule.mode, number(rule.bits), number(rule.group));
}

Error wrong_shape(const MatrixTensors& tensors, const TensorView& tensor, const std::string& expected) {
  return Error{Code::kCorrupt,
               fmt::format("{}: tensor {} is {} {}, expected {}", tensors.file, quote(tensor.name),
                           dtype_name(tensor.dtype), shape_text(tensor.shape), expected),
               "config.json and the weights do not belong together, or the file is damaged"};
}

Error unsupported_mode(std::string_view module, const MatrixTensors& tensors, const std::string& mode) {
  return Error{Code::kUnsupported,
               fmt::format("{}: {} is quantised in mode {}, but weir reads only affine", tensors.file,
                           quote(module), quote(mode)),
               "use a checkpoint quantised with mode affine"};
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kBf16 || dtype == Dtype::kF16 || dtype == Dtype::kF32;
}

// The last dimension of a tensor whose leading dimensions hold `rows` rows; nothing when they do not.
std::optional<int64_t> row_length(const TensorView& tensor, int64_t rows) {
  if (tensor.shape.empty()) return std::nullopt;
  const int64_t last = tensor.shape.back();
  if (rows <= 0 || last <= 0 || tensor.elements() / last != rows || tensor.elements() % last != 0)
    return std::nullopt;
  return last;
}

Result<Encoding> plain_encoding(const MatrixTensors& tensors, int64_t rows, int64_t cols) {
  const TensorView& weight = *tensors.weight;
  if (weight.dtype == Dtype::kU32) {
    return wrong_shape(tensors, weight, "scales beside it, as packed weights have them");
  }
  if (!is_float(weight.dtype)) return wrong_shape(tensors, weight, "BF16, F16 or F32");
  if (row_length(weight, rows) != cols) {
    return wrong_shape(tensors, weight, fmt::format("{} rows of {}", rows, cols));
  }
  return Encoding{weight.dtype, 0, 0};
}

// bits = 32 * words / cols and group = cols / scales per row, both exact.
Result<Encoding> affine_encoding(const MatrixTensors& tensors, int64_t rows, int64_t cols) {
  const TensorView& weight = *tensors.weight;
  const TensorView& scales = *tensors.scales;
  if (weight.dtype != Dtype::kU32)
    return wrong_shape(tensors, weight, "U32, since there are scales beside it");
  if (!is_float(scales.dtype)) return wrong_shape(tensors, scales, "BF16, F16 or F32");
  const auto words = row_length(weight, rows);
  constexpr std::array kBits = {2, 3, 4, 5, 6, 8};
  const auto bits = std::find_if(kBits.begin(), kBits.end(),
                                 [&](int b) { return words && cols % 32 == 0 && *words == cols / 32 * b; });
  if (bits == kBits.end()) {
    return wrong_shape(
        tensors, weight,
        fmt::format("{} rows of {} values of 2, 3, 4, 5, 6 or 8 bits in words of 32", rows, cols));
  }
  const auto groups = row_length(scales, rows);
  constexpr std::array kGroups = {32, 64, 128};
  const auto group = std::find_if(kGroups.begin(), kGroups.end(),
                                  [&](int g) { return groups && cols % g == 0 && *groups == cols / g; });
  if (group == kGroups.end()) {
    return wrong_shape(tensors, scales,
                       fmt::format("{} rows of {} values in groups of 32, 64 or 128", rows, cols));
  }
  const TensorView& biases = *tensors.biases;
  if (biases.dtype != scales.dtype || biases.shape != scales.shape) {
    return wrong_shape(
        tensors, biases,
        fmt::format("{} {} as the scales are", dtype_name(scales.dtype), shape_text(scales.shape)));
  }
  return Encoding{scales.dtype, *bits, *group};
}

}  // namespace

Result<QuantizationSection> QuantizationSection::read(const json& config, std::string_view where) {
  QuantizationSection section;
  section.where_ = std::string(where);
  const std::string_view key = json_has(config, "quantization") ? "quantization" : "quantization_config";
  if (!json_has(config, key)) return section;
  WEIR_TRY(const json* entries, json_object(config, key, where));
  if (json_has(*entries, "quant_method")) {
    WEIR_TRY(const std::string method, json_string(*entries, "quant_method", where));
    return Error{Code::kUnsupported,
                 fmt::format("{}: the weights are quantised by the method {}, which weir does not read",
                             where, quote(method)),
                 "use the bf16 checkpoint or an MLX checkpoint quantised with mode affine"};
  }
  WEIR_TRY(section.defaults_, read_rule(*entries, section.where_));
  for (const auto& [name, entry] : entries->items()) {
    if (!entry.is_object() && !entry.is_boolean()) continue;
    QuantizationRule rule;
    if (entry.is_object()) {
      WEIR_TRY(rule, read_rule(entry, section.where_ + ", " + quote(name)));
    } else if (entry.get<bool>()) {
      rule = *section.defaults_;
    } else {
      rule.quantised = false;
    }
    section.modules_.insert_or_assign(canonical_name(name), rule);
  }
  return section;
}

const QuantizationRule* QuantizationSection::find(std::string_view module) const {
  const auto found = modules_.find(module);
  return found == modules_.end() ? nullptr : &found->second;
}

Result<Encoding> resolve_encoding(std::string_view module, const MatrixTensors& tensors, int64_t rows,
                                  int64_t cols, const QuantizationSection& section) {
  const QuantizationRule* rule = section.find(module);
  if (tensors.scales == nullptr) {
    WEIR_TRY(const Encoding plain, plain_encoding(tensors, rows, cols));
    if (rule == nullptr || !rule->quantised) return plain;
    return contradiction(module, tensors, section.where(), "plain, without scales", rule_text(*rule));
  }
  if (rule != nullptr && !rule->quantised) {
    return contradiction(module, tensors, section.where(), "with scales", "it is not quantised");
  }
  if (rule != nullptr && rule->mode != "affine") return unsupported_mode(module, tensors, rule->mode);
  if (tensors.scales->dtype == Dtype::kU8) {
    const bool named = rule == nullptr && section.present() && section.defaults()->mode != "affine";
    return unsupported_mode(module, tensors, named ? section.defaults()->mode : "of byte scales");
  }
  if (tensors.biases == nullptr) return wrong_shape(tensors, *tensors.scales, "biases beside it");
  WEIR_TRY(const Encoding stored, affine_encoding(tensors, rows, cols));
  if (rule == nullptr) return stored;
  if (rule->bits.value_or(stored.bits) == stored.bits && rule->group.value_or(stored.group) == stored.group) {
    return stored;
  }
  return contradiction(module, tensors, section.where(), stored.text(), rule_text(*rule));
}

}  // namespace weir
