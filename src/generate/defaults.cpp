#include "generate/defaults.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/mapped_file.h"
#include "checkpoint/json_fields.h"

namespace weir {
namespace {

using nlohmann::json;

constexpr int64_t kLargestInt = std::numeric_limits<int32_t>::max();

Result<json> read_json(const std::string& path) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  WEIR_TRY(json value, parse_json(text, path));
  if (!value.is_object()) return Error{Code::kCorrupt, path + " is not a JSON object", ""};
  return value;
}

bool is_missing(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found;
}

Status add_end_tokens(const json& object, const std::string& where, std::vector<int32_t>& tokens) {
  if (!json_has(object, "eos_token_id")) return Ok{};
  WEIR_TRY(const std::vector<int64_t> ids, json_ints(object, "eos_token_id", 0, kLargestInt, where));
  for (const int64_t id : ids) tokens.push_back(static_cast<int32_t>(id));
  return Ok{};
}

Status add_config_end_tokens(const std::string& path, std::vector<int32_t>& tokens) {
  WEIR_TRY(const json config, read_json(path));
  WEIR_RETURN_IF_ERROR(add_end_tokens(config, path, tokens));
  if (!json_has(config, "text_config")) return Ok{};
  WEIR_TRY(const json* text, json_object(config, "text_config", path));
  return add_end_tokens(*text, path + ", text_config", tokens);
}

Status read_real(const json& object, const char* key, double min, double max, const std::string& where,
                 float& value) {
  WEIR_TRY(const double read, json_double_or(object, key, min, max, where, value));
  value = static_cast<float>(read);
  return Ok{};
}

// The ranges are those of Sampling.
Status read_sampling(const json& object, const std::string& where, Sampling& sampling) {
  WEIR_RETURN_IF_ERROR(read_real(object, "temperature", 0, 100, where, sampling.temperature));
  WEIR_RETURN_IF_ERROR(read_real(object, "top_p", 0, 1, where, sampling.top_p));
  WEIR_RETURN_IF_ERROR(read_real(object, "min_p", 0, 1, where, sampling.min_p));
  WEIR_RETURN_IF_ERROR(
      read_real(object, "repetition_penalty", 0.01f, 100, where, sampling.repetition_penalty));
  WEIR_TRY(const int64_t top_k, json_int_or(object, "top_k", -1, kLargestInt, where, sampling.top_k));
  sampling.top_k = static_cast<int>(top_k);
  WEIR_TRY(const bool sample, json_bool_or(object, "do_sample", where, true));
  if (!sample) sampling.temperature = 0;
  return Ok{};
}

// The ranges are those of Denoising.
Status read_denoising(const json& object, const std::string& where, Denoising& d) {
  WEIR_TRY(d.steps, json_int_or(object, "max_denoising_steps", 1, 1'000'000, where, d.steps));
  WEIR_RETURN_IF_ERROR(read_real(object, "t_min", 0.01, 100, where, d.t_min));
  WEIR_RETURN_IF_ERROR(read_real(object, "t_max", 0.01, 100, where, d.t_max));
  WEIR_TRY(d.stability, json_int_or(object, "stability_threshold", 0, 1'000'000, where, d.stability));
  WEIR_RETURN_IF_ERROR(read_real(object, "confidence_threshold", 0, 1e6, where, d.confidence));
  if (!json_has(object, "sampler_config")) return Ok{};
  WEIR_TRY(const json* sampler, json_object(object, "sampler_config", where));
  WEIR_TRY(const std::string name, json_string_or(*sampler, "_cls_name", where, "EntropyBoundSamplerConfig"));
  if (name != "EntropyBoundSamplerConfig") {
    return Error{Code::kUnsupported, where + ": sampler_config is a " + name,
                 "weir denoises with EntropyBoundSamplerConfig"};
  }
  EntropyBound bound;
  WEIR_RETURN_IF_ERROR(read_real(*sampler, "entropy_bound", 0, 1e6, where, bound.bound));
  d.acceptance = bound;
  return Ok{};
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const std::string& folder) {
  GenerationDefaults defaults;
  const std::string path = folder + "/generation_config.json";
  if (!is_missing(path)) {
    WEIR_TRY(const json generation, read_json(path));
    WEIR_RETURN_IF_ERROR(read_sampling(generation, path, defaults.sampling));
    WEIR_RETURN_IF_ERROR(read_denoising(generation, path, defaults.denoising));
    WEIR_RETURN_IF_ERROR(add_end_tokens(generation, path, defaults.end_tokens));
  }
  if (defaults.end_tokens.empty()) {
    WEIR_RETURN_IF_ERROR(add_config_end_tokens(folder + "/config.json", defaults.end_tokens));
  }
  std::sort(defaults.end_tokens.begin(), defaults.end_tokens.end());
  defaults.end_tokens.erase(std::unique(defaults.end_tokens.begin(), defaults.end_tokens.end()),
                            defaults.end_tokens.end());
  return defaults;
}

}  // namespace weir
