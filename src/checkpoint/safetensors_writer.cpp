#include "checkpoint/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "checkpoint/names.h"
#include "checkpoint/quote.h"

namespace weir {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";

// Data start at a multiple of this, which loads of any width like.
constexpr size_t kAlignment = 64;

Status check_names(const std::vector<TensorPlan>& plan) {
  std::set<std::string_view> names;
  for (const TensorPlan& tensor : plan) {
    if (names.insert(tensor.name).second) continue;
    return Error{Code::kInvalidArgument, "two tensors have the name " + quote(tensor.name), ""};
  }
  return Ok{};
}

// Eight bytes of length, then JSON filled up with spaces.
std::string header_of(const std::vector<TensorPlan>& tensors) {
  nlohmann::ordered_json entries = {{"__metadata__", {{"format", "mlx"}}}};
  uint64_t begin = 0;
  for (const TensorPlan& tensor : tensors) {
    const uint64_t end = begin + tensor.bytes();
    entries[tensor.name] = {
        {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string json = entries.dump();
  uint64_t length = json.size();
  length += (kAlignment - (sizeof length + length) % kAlignment) % kAlignment;
  json.resize(length, ' ');
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + json;
}

std::string shard_name(size_t shard, size_t shards) {
  return shards == 1 ? "model.safetensors"
                     : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

bool is_of_draft_head(const TensorPlan& tensor) {
  return tensor.name.starts_with(kDraftHeadPrefix);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

uint64_t TensorPlan::bytes() const {
  uint64_t bytes = dtype_size(dtype);
  for (const int64_t dimension : shape) bytes *= static_cast<uint64_t>(dimension);
  return bytes;
}

Result<SafetensorsWriter> SafetensorsWriter::create(std::string folder, std::vector<TensorPlan> plan,
                                                    Progress progress, uint64_t shard_bytes) {
  WEIR_RETURN_IF_ERROR(check_names(plan));
  SafetensorsWriter writer(std::move(folder), std::move(progress));
  for (TensorPlan& tensor : plan) {
    const uint64_t bytes = tensor.bytes();
    const bool draft_head = is_of_draft_head(tensor);
    if (writer.shards_.empty() || writer.shards_.back().draft_head != draft_head ||
        (!draft_head && bytes > 0 && writer.shards_.back().bytes + bytes > shard_bytes)) {
      writer.shards_.push_back({.draft_head = draft_head});
    }
    writer.shards_.back().bytes += bytes;
    writer.shards_.back().tensors.push_back(std::move(tensor));
    writer.total_ += bytes;
  }
  if (writer.total_ == 0) return Error{Code::kInvalidArgument, "there are no weights to write", ""};
  writer.name_shards();
  WEIR_RETURN_IF_ERROR(writer.prepare_folder());
  WEIR_RETURN_IF_ERROR(writer.check_room());
  return writer;
}

void SafetensorsWriter::name_shards() {
  const auto of_model = [](const Shard& shard) { return !shard.draft_head; };
  const auto count = std::count_if(shards_.begin(), shards_.end(), of_model);
  size_t next = 0;
  for (Shard& shard : shards_) {
    shard.name = shard.draft_head ? kDraftHeadFile : shard_name(next++, static_cast<size_t>(count));
  }
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : folder_(std::move(other.folder_)),
      progress_(std::move(other.progress_)),
      made_folder_(std::exchange(other.made_folder_, false)),
      shards_(std::move(other.shards_)),
      files_(std::move(other.files_)),
      opened_(other.opened_),
      left_in_shard_(other.left_in_shard_),
      done_(other.done_),
      total_(other.total_) {}

SafetensorsWriter::~SafetensorsWriter() {
  files_.clear();
  std::error_code ignored;
  if (made_folder_ && !finished_) fs::remove(folder_, ignored);  // only when it is empty
}

Status SafetensorsWriter::prepare_folder() {
  std::error_code failed;
  made_folder_ = fs::create_directories(folder_, failed);
  if (failed)
    return Error{Code::kInternal, "cannot make the folder " + folder_ + ": " + failed.message(), ""};
  const bool empty = fs::is_empty(folder_, failed);
  if (failed) return Error{Code::kInternal, "cannot look into " + folder_ + ": " + failed.message(), ""};
  if (empty) return Ok{};
  return Error{Code::kInvalidArgument, folder_ + " is not empty", "name a new folder"};
}

Status SafetensorsWriter::check_room() const {
  std::error_code failed;
  const fs::space_info room = fs::space(folder_, failed);
  if (failed || room.available >= total_) return Ok{};  // not every file system says how much it has
  return Error{Code::kInternal,
               fmt::format("{} takes {:.2f} GB, and its disk has {:.2f} GB free", folder_,
                           static_cast<double>(total_) * 1e-9, static_cast<double>(room.available) * 1e-9),
               "free some space or name a folder on another disk"};
}

Status SafetensorsWriter::open_shard() {
  WEIR_CHECK(opened_ < shards_.size());
  const Shard& shard = shards_[opened_++];
  WEIR_TRY(NewFile file, NewFile::create(folder_ + "/" + shard.name));
  WEIR_RETURN_IF_ERROR(file.write(bytes_of(header_of(shard.tensors))));
  files_.emplace(shard.name, std::move(file));
  left_in_shard_ = shard.bytes;
  return Ok{};
}

Status SafetensorsWriter::write(std::span<const std::byte> data) {
  constexpr size_t kPiece = size_t{8} << 20;  // between two reports of progress
  while (!data.empty()) {
    if (left_in_shard_ == 0) WEIR_RETURN_IF_ERROR(open_shard());
    NewFile& file = files_.at(shards_[opened_ - 1].name);
    const auto piece = data.first(std::min({data.size(), kPiece, static_cast<size_t>(left_in_shard_)}));
    WEIR_RETURN_IF_ERROR(file.write(piece));
    data = data.subspan(piece.size());
    done_ += piece.size();
    left_in_shard_ -= piece.size();
    if (left_in_shard_ == 0) WEIR_RETURN_IF_ERROR(file.close());
    if (progress_) progress_(done_, total_);
  }
  return Ok{};
}

Status SafetensorsWriter::add_file(std::string_view name, std::string_view text) {
  WEIR_TRY(NewFile file, NewFile::create(folder_ + "/" + std::string(name)));
  WEIR_RETURN_IF_ERROR(file.write(bytes_of(text)));
  WEIR_RETURN_IF_ERROR(file.close());
  files_.emplace(name, std::move(file));
  return Ok{};
}

std::string SafetensorsWriter::index() const {
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  uint64_t bytes = 0;
  for (const Shard& shard : shards_) {
    if (shard.draft_head) continue;
    bytes += shard.bytes;
    for (const TensorPlan& tensor : shard.tensors) weight_map[tensor.name] = shard.name;
  }
  return nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(weight_map)}}
      .dump(2);
}

Status SafetensorsWriter::finish() {
  WEIR_CHECK(done_ == total_);
  WEIR_RETURN_IF_ERROR(add_file(kIndex, index()));
  auto config = files_.extract(kConfig);
  for (auto& [name, file] : files_) WEIR_RETURN_IF_ERROR(file.publish());
  if (!config.empty()) WEIR_RETURN_IF_ERROR(config.mapped().publish());
  finished_ = true;
  return Ok{};
}

}  // namespace weir
