// Opening a model folder: config.json, the shards, and which layout they are in.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/names.h"
#include "checkpoint/quote.h"
#include "checkpoint/shard_index.h"

namespace weir {
namespace {

// Far above any real config.json or index; keeps a hostile one from filling memory.
constexpr size_t kLongestJson = size_t{64} << 20;

constexpr const char* kIncomplete = "the model folder is incomplete; download or convert it again";

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Result<MappedFile> open_text(const std::string& path) {
  WEIR_TRY(MappedFile file, MappedFile::open(path));
  if (file.bytes().size() <= kLongestJson) return file;
  return Error{Code::kCorrupt,
               fmt::format("{} has {} bytes, expected at most {}", path, file.bytes().size(), kLongestJson),
               ""};
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Result<nlohmann::json> read_config(const std::string& path) {
  WEIR_TRY(const MappedFile file, open_text(path));
  WEIR_TRY(nlohmann::json config, parse_json(text_of(file), path));
  if (config.is_object()) return config;
  return Error{Code::kCorrupt, path + " is not a JSON object", ""};
}

bool is_conv1d(std::string_view name) {
  return name.ends_with(".conv1d.weight");
}

// Only MLX has packed weights, stacked experts under "switch_mlp", and ".weight" on DiffusionGemma's stacks.
bool is_mlx_name(std::string_view name) {
  return name.ends_with(".scales") || name.find(".switch_mlp.") != std::string_view::npos ||
         name.ends_with(".experts.gate_up_proj.weight");
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return Error{Code::kNotFound, folder + " is not a folder", "name the folder that holds config.json"};
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  WEIR_TRY(nlohmann::json config, read_config(checkpoint.config_path()));
  WEIR_RETURN_IF_ERROR(checkpoint.take_config(std::move(config)));
  WEIR_RETURN_IF_ERROR(checkpoint.open_files());
  WEIR_RETURN_IF_ERROR(checkpoint.sort_out());
  return checkpoint;
}

Result<Checkpoint> Checkpoint::from_memory(std::string origin, nlohmann::json config,
                                           std::span<const TensorView> tensors,
                                           std::shared_ptr<const void> owner) {
  Checkpoint checkpoint;
  checkpoint.folder_ = std::move(origin);
  checkpoint.memory_ = std::move(owner);
  WEIR_RETURN_IF_ERROR(checkpoint.take_config(std::move(config)));
  WEIR_RETURN_IF_ERROR(checkpoint.add_tensors(tensors, checkpoint.folder_));
  WEIR_RETURN_IF_ERROR(checkpoint.sort_out());
  return checkpoint;
}

Status Checkpoint::take_config(nlohmann::json config) {
  WEIR_TRY(quantization_, QuantizationSection::read(config, config_path()));
  config_ = std::make_shared<const nlohmann::json>(std::move(config));
  return Ok{};
}

// What follows once all tensors are known.
Status Checkpoint::sort_out() {
  for (auto& [name, entry] : tensors_) {
    if (is_vision_or_mtp(entry.view.name)) skip(entry);
  }
  return detect_layout();
}

Status Checkpoint::open_files() {
  WEIR_RETURN_IF_ERROR(open_model_files());
  const std::string draft_head = folder_ + "/" + kDraftHeadFile;
  return exists(draft_head) ? add_file(draft_head) : Status(Ok{});
}

Status Checkpoint::open_model_files() {
  const std::string index = folder_ + "/model.safetensors.index.json";
  if (exists(index)) return open_shards(index);
  const std::string single = folder_ + "/model.safetensors";
  if (exists(single)) return add_file(single);
  return Error{Code::kNotFound, folder_ + " has neither model.safetensors nor model.safetensors.index.json",
               kIncomplete};
}

Status Checkpoint::open_shards(const std::string& index_path) {
  WEIR_TRY(const MappedFile file, open_text(index_path));
  WEIR_TRY(const ShardIndex index, parse_shard_index(text_of(file), index_path));
  for (const std::string& shard : index.shards()) {
    const std::string path = folder_ + "/" + shard;
    if (!exists(path)) {
      return Error{Code::kNotFound,
                   fmt::format("{} names the shard {}, which is missing", index_path, quote(shard)),
                   kIncomplete};
    }
    WEIR_RETURN_IF_ERROR(add_file(path));
    for (const TensorView& tensor : files_.back().tensors()) {
      const auto listed = index.shard_of.find(tensor.name);
      if (listed != index.shard_of.end() && listed->second == shard) continue;
      return Error{Code::kCorrupt,
                   fmt::format("{}: tensor {} is not listed for this shard in {}", path, quote(tensor.name),
                               index_path),
                   "index and shards are of different conversions; take both from one"};
    }
  }
  for (const auto& [name, shard] : index.shard_of) {
    const auto found = tensors_.find(canonical_name(name));
    if (found != tensors_.end() && found->second.view.name == name) continue;
    return Error{
        Code::kCorrupt,
        fmt::format("{}: tensor {} should be in {}, but is not", index_path, quote(name), quote(shard)),
        "index and shards are of different conversions; take both from one"};
  }
  return Ok{};
}

Status Checkpoint::add_file(const std::string& path) {
  WEIR_TRY(SafetensorsFile file, SafetensorsFile::open(path));
  WEIR_RETURN_IF_ERROR(add_tensors(file.tensors(), path));
  files_.push_back(std::move(file));
  return Ok{};
}

Status Checkpoint::add_tensors(std::span<const TensorView> tensors, const std::string& file) {
  for (const TensorView& view : tensors) {
    const auto [place, added] =
        tensors_.try_emplace(canonical_name(view.name), Entry{view, file, Use::kNotYet});
    if (added) continue;
    const Entry& other = place->second;
    return Error{Code::kCorrupt,
                 fmt::format("{}: tensor {} is the same as {} in {}", file, quote(view.name),
                             quote(other.view.name), other.file),
                 "the folder mixes two checkpoints"};
  }
  return Ok{};
}

// Hugging Face stores the depthwise convolution as [channels, 1, taps], MLX as [channels, taps, 1], and only
// files of the former shape have zero-centred norms. Nothing else tells: an MLX file may well carry mtp.*
// names.
Status Checkpoint::detect_layout() {
  const Entry* first = nullptr;
  bool looks_mlx = quantization_.present();
  for (const auto& [name, entry] : tensors_) {
    looks_mlx = looks_mlx || is_mlx_name(name);
    if (!is_conv1d(name) || entry.use == Use::kSkipped) continue;
    const auto& shape = entry.view.shape;
    if (shape.size() != 3 || (shape[1] != 1 && shape[2] != 1)) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: tensor {} is {}, expected [channels, 1, taps] or [channels, taps, 1]",
                               entry.file, quote(entry.view.name), shape_text(shape)),
                   ""};
    }
    const Layout layout = shape[2] != 1 ? Layout::kHuggingFace : Layout::kMlx;
    if (first != nullptr && layout != layout_) {
      return Error{
          Code::kCorrupt,
          fmt::format("{}: tensor {} is {}, laid out unlike {} with {}", entry.file, quote(entry.view.name),
                      shape_text(shape), quote(first->view.name), shape_text(first->view.shape)),
          "the folder mixes the layouts of Hugging Face and MLX"};
    }
    layout_ = layout;
    first = &entry;
  }
  if (first == nullptr) layout_ = looks_mlx ? Layout::kMlx : Layout::kHuggingFace;
  return Ok{};
}

}  // namespace weir
