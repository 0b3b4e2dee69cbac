// What both models read of config.json in the same way.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir {

// Bounds on any size in config.json: generous, and small enough that products of three do not overflow.
inline constexpr int64_t kMaxConfigSize = 1 << 20;

struct SizeField {
  const char* key;
  int64_t* value;
};

// Fills all fields, each from 1 to kMaxConfigSize. Errors: kCorrupt, naming `where` and the field.
Status read_sizes(const nlohmann::json& text, std::span<const SizeField> fields, const std::string& where);

// `layer_types`, one entry for each layer. Error: kCorrupt.
Result<std::vector<std::string>> read_layer_types(const nlohmann::json& text, int64_t layers,
                                                  const std::string& where);

}  // namespace weir
