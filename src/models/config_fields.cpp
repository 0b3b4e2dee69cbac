#include "models/config_fields.h"

#include <nlohmann/json.hpp>

#include "checkpoint/json_fields.h"

namespace weir {

Status read_sizes(const nlohmann::json& text, std::span<const SizeField> fields, const std::string& where) {
  for (const SizeField& field : fields) {
    WEIR_TRY(*field.value, json_int(text, field.key, 1, kMaxConfigSize, where));
  }
  return {};
}

Result<std::vector<std::string>> read_layer_types(const nlohmann::json& text, int64_t layers,
                                                  const std::string& where) {
  WEIR_TRY(std::vector<std::string> types, json_strings(text, "layer_types", where));
  if (static_cast<int64_t>(types.size()) == layers) return types;
  return Error{Code::kCorrupt,
               where + ": layer_types has " + std::to_string(types.size()) +
                   " entries, num_hidden_layers is " + std::to_string(layers),
               ""};
}

}  // namespace weir
