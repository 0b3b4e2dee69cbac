#include "checkpoint/quantize_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/mapped_file.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/names.h"

namespace weir {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kLargestFile = size_t{64} << 20;
constexpr const char* kGeneration = "generation_config.json";

bool is_copied(const fs::path& path) {
  constexpr std::array<std::string_view, 3> kExtensions = {".json", ".jinja", ".txt"};
  const std::string name = path.filename().string();
  if (name == "config.json" || name.ends_with(".safetensors.index.json")) return false;
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
}

Result<std::string> read_text(const std::string& path) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kLargestFile) {
    return Error{Code::kCorrupt,
                 fmt::format("{} has {} bytes, expected at most {}", path, file.bytes().size(), kLargestFile),
                 ""};
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

json entry_of(const Precision& precision) {
  return {{"bits", precision.bits}, {"group_size", precision.group}};
}

// Null when nothing is quantised. Of the draft head, which MLX does not know, shapes say the precision.
json quantization_section(const Precision& base, const QuantizePlan& plan) {
  json section = entry_of(base);
  section["mode"] = "affine";
  bool any = false;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.precision.plain()) continue;
    any = true;
    if (!(tensor.precision == base) && !tensor.name.starts_with(kDraftHeadPrefix))
      section[tensor.name] = entry_of(tensor.precision);
  }
  return any ? section : json();
}

}  // namespace

Result<TextFile> quantized_config(const Checkpoint& checkpoint, ModelFamily family, const Precision& base,
                                  const QuantizePlan& plan) {
  json config = checkpoint.config();
  const json section = quantization_section(base, plan);
  if (!section.is_null()) config["quantization"] = config["quantization_config"] = section;
  if (family == ModelFamily::kQwen) config.erase("vision_config");
  const std::string path = checkpoint.folder() + "/" + kGeneration;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    WEIR_TRY(const std::string text, read_text(path));
    WEIR_TRY(const json generation, parse_json(text, path));
    if (json_has(generation, "eos_token_id")) config["eos_token_id"] = generation["eos_token_id"];
    if (family == ModelFamily::kDiffusionGemma) config["generation_config"] = generation;
  }
  return TextFile{"config.json", config.dump(1) + "\n"};
}

Result<std::vector<TextFile>> copied_files(const std::string& folder) {
  std::vector<TextFile> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (!is_copied(entry->path())) continue;
    WEIR_TRY(std::string text, read_text(entry->path().string()));
    files.push_back({entry->path().filename().string(), std::move(text)});
  }
  if (failed) return Error{Code::kNotFound, "cannot look into " + folder + ": " + failed.message(), ""};
  return files;
}

}  // namespace weir
