#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/finite.h"
#include "checkpoint/quote.h"

namespace weir {
namespace {

Error missing(const std::string& folder, std::string_view name) {
  return Error{Code::kNotFound, fmt::format("{} has no tensor {}", folder, quote(name)),
               "config.json and the weights do not belong together, or a shard is missing"};
}

Status check_finite(const TensorView& tensor, const std::string& file) {
  const auto bad = first_non_finite(tensor.dtype, tensor.data.data(), tensor.elements());
  if (!bad) return Ok{};
  return Error{Code::kCorrupt,
               fmt::format("{}: tensor {} holds {} at index {}", file, quote(tensor.name),
                           load_float(tensor.dtype, tensor.data.data(), *bad), *bad),
               "the weights are damaged; download or convert them again"};
}

}  // namespace

bool Checkpoint::has(std::string_view name) const {
  return tensors_.find(name) != tensors_.end();
}

Result<Matrix> Checkpoint::matrix(std::string_view module, int64_t rows, int64_t cols) {
  const std::string base(module);
  const std::string weight_name = has(base + ".weight") ? base + ".weight" : base;
  const auto weight = tensors_.find(weight_name);
  if (weight == tensors_.end()) return missing(folder_, base + ".weight");

  MatrixTensors found{take(weight_name), take(base + ".scales"), take(base + ".biases"), weight->second.file};
  WEIR_TRY(const Encoding encoding, resolve_encoding(module, found, rows, cols, quantization_));
  Matrix matrix{encoding, rows, cols, found.weight->data.data(), nullptr, nullptr};
  if (!encoding.affine()) return matrix;
  for (const char* suffix : {".scales", ".biases"}) {
    const Entry& entry = tensors_.find(base + suffix)->second;
    WEIR_RETURN_IF_ERROR(check_finite(entry.view, entry.file));
  }
  matrix.scales = found.scales->data.data();
  matrix.biases = found.biases->data.data();
  note_departure(module, encoding);
  return matrix;
}

Result<std::vector<float>> Checkpoint::values(std::string_view name, int64_t count) {
  const TensorView* tensor = take(name);
  if (tensor == nullptr) return missing(folder_, name);
  const std::string& file = tensors_.find(name)->second.file;
  const bool is_float =
      tensor->dtype == Dtype::kBf16 || tensor->dtype == Dtype::kF16 || tensor->dtype == Dtype::kF32;
  if (!is_float || tensor->elements() != count) {
    return Error{
        Code::kCorrupt,
        fmt::format("{}: tensor {} is {} {}, expected {} values of BF16, F16 or F32", file,
                    quote(tensor->name), dtype_name(tensor->dtype), shape_text(tensor->shape), count),
        "config.json and the weights do not belong together"};
  }
  WEIR_RETURN_IF_ERROR(check_finite(*tensor, file));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = load_float(tensor->dtype, tensor->data.data(), i);
  }
  return values;
}

const TensorView* Checkpoint::take(std::string_view name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  Entry& entry = found->second;
  if (entry.use == Use::kSkipped) {
    --skipped_.tensors;
    skipped_.bytes -= entry.view.data.size();
  }
  entry.use = Use::kRead;
  return &entry.view;
}

void Checkpoint::skip(Entry& entry) {
  if (entry.use != Use::kNotYet) return;
  entry.use = Use::kSkipped;
  ++skipped_.tensors;
  skipped_.bytes += entry.view.data.size();
}

void Checkpoint::let_go() const {
  for (const SafetensorsFile& file : files_) file.let_go();
}

void Checkpoint::skip_prefix(std::string_view prefix) {
  for (auto entry = tensors_.lower_bound(prefix);
       entry != tensors_.end() && std::string_view(entry->first).starts_with(prefix); ++entry) {
    skip(entry->second);
  }
}

void Checkpoint::note_departure(std::string_view module, const Encoding& stored) {
  const auto& defaults = quantization_.defaults();
  if (!defaults || quantization_.find(module) != nullptr) return;
  if (defaults->bits.value_or(stored.bits) == stored.bits &&
      defaults->group.value_or(stored.group) == stored.group) {
    return;
  }
  notes_.push_back(fmt::format("{} is stored {}, unlike the defaults of {}, which has no entry for it",
                               quote(module), stored.text(), config_path()));
}

Status Checkpoint::finish() const {
  constexpr int kNamed = 3;
  int unread = 0;
  std::string names;
  for (const auto& [name, entry] : tensors_) {
    if (entry.use != Use::kNotYet) continue;
    if (unread < kNamed) names += (unread > 0 ? ", " : "") + quote(entry.view.name);
    ++unread;
  }
  if (unread == 0) return Ok{};
  return Error{Code::kUnsupported,
               fmt::format("{}: no part of the model reads {} of its tensors: {}{}", folder_, unread, names,
                           unread > kNamed ? ", ..." : ""),
               "the checkpoint is of a variant that weir does not know"};
}

std::vector<const TensorView*> Checkpoint::tensors() const {
  std::vector<const TensorView*> all;
  for (const auto& [name, entry] : tensors_) all.push_back(&entry.view);
  std::sort(all.begin(), all.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  return all;
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, entry] : tensors_) total += entry.view.data.size();
  return total;
}

}  // namespace weir
