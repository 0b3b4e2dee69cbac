// config.json and model.safetensors.index.json of any bytes.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/json_fields.h"
#include "checkpoint/quantization.h"
#include "checkpoint/shard_index.h"

namespace {

void read_fields(const nlohmann::json& config) {
  for (const char* key : {"bits", "mode", "quantization", "eos_token_id", "layer_types"}) {
    (void)weir::json_int_or(config, key, 0, 100, "fuzz", 1);
    (void)weir::json_double(config, key, 0, 1, "fuzz");
    (void)weir::json_bool(config, key, "fuzz");
    (void)weir::json_string(config, key, "fuzz");
    (void)weir::json_ints(config, key, -5, 5, "fuzz");
    (void)weir::json_strings(config, key, "fuzz");
    (void)weir::json_object(config, key, "fuzz");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = weir::parse_json(text, "fuzz"); config.ok()) {
    read_fields(*config);
    (void)weir::QuantizationSection::read(*config, "fuzz");
  }
  if (const auto index = weir::parse_shard_index(text, "fuzz"); index.ok()) {
    for (const auto& shard : index->shards()) {
      if (shard.find('/') != std::string::npos) std::abort();
    }
  }
  return 0;
}
