#include "checkpoint/summary.h"

#include <algorithm>
#include <array>
#include <optional>

#include "checkpoint/names.h"

namespace weir {
namespace {

bool has_part(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// The module of a packed matrix's tensor, by canonical path; empty for a tensor of another kind.
std::string packed_module(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return "";
  return canonical_name(std::string_view(name).substr(0, name.size() - suffix.size()));
}

// bits * group = 32 * words / scales per row: what the shapes alone say.
bool fits(int bits, int group, int64_t words, int64_t scales) {
  return 32 * words == scales * bits * group;
}

std::optional<Encoding> packed_encoding(const Checkpoint& checkpoint, const std::string& module,
                                        const TensorView& weight, const TensorView& scales) {
  if (weight.elements() == 0 || scales.elements() == 0 || scales.dtype == Dtype::kU8) return std::nullopt;
  if (weight.shape.empty() || scales.shape.empty()) return std::nullopt;
  const int64_t words = weight.shape.back();
  const int64_t groups = scales.shape.back();
  const auto& defaults = checkpoint.quantization().defaults();
  const QuantizationRule* rule = checkpoint.quantization().find(module);
  if (rule == nullptr && defaults) rule = &*defaults;
  if (rule != nullptr && rule->bits && rule->group && fits(*rule->bits, *rule->group, words, groups)) {
    return Encoding{scales.dtype, *rule->bits, *rule->group};
  }
  for (const int group : {64, 32, 128}) {
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      if (fits(bits, group, words, groups)) return Encoding{scales.dtype, bits, group};
    }
  }
  return std::nullopt;
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lowered;
}

class Summarizer {
 public:
  explicit Summarizer(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    for (const TensorView* tensor : checkpoint.tensors()) {
      if (const std::string module = packed_module(tensor->name, ".scales"); !module.empty()) {
        scales_.emplace(module, tensor);
      }
    }
  }

  void add(const TensorView& tensor, ModuleSummary& summary) const {
    ++summary.tensors;
    summary.bytes += tensor.data.size();
    if (const std::string module = packed_module(tensor.name, ".weight"); scales_.contains(module)) {
      const auto encoding = packed_encoding(checkpoint_, module, tensor, *scales_.at(module));
      const int bits = encoding ? encoding->bits : 32;
      add_parameters(static_cast<int64_t>(tensor.data.size()) * 8 / bits,
                     encoding ? encoding->text() : "not affine", summary);
    } else if (!scales_.contains(packed_module(tensor.name, ".scales")) &&
               !scales_.contains(packed_module(tensor.name, ".biases"))) {
      add_parameters(tensor.elements(), lower(dtype_name(tensor.dtype)), summary);
    }
  }

 private:
  static void add_parameters(int64_t count, const std::string& encoding, ModuleSummary& summary) {
    summary.parameters += count;
    summary.encodings[encoding] += count;
  }

  const Checkpoint& checkpoint_;
  std::map<std::string, const TensorView*> scales_;  // by module
};

}  // namespace

std::string_view module_kind_name(ModuleKind kind) {
  constexpr std::array<std::string_view, 12> kNames = {
      "embedding",     "head", "attention",         "delta net", "router", "experts",
      "shared expert", "mlp",  "self-conditioning", "norms",     "other",  "skipped"};
  return kNames[static_cast<size_t>(kind)];
}

ModuleKind module_kind(std::string_view name) {
  if (is_vision_or_mtp(name)) return ModuleKind::kSkipped;
  if (has_part(name, "embed_tokens.")) return ModuleKind::kEmbedding;
  if (has_part(name, "lm_head.")) return ModuleKind::kHead;
  if (has_part(name, "norm.") || has_part(name, "layernorm")) return ModuleKind::kNorms;
  if (has_part(name, ".self_attn.")) return ModuleKind::kAttention;
  if (has_part(name, ".linear_attn.")) return ModuleKind::kDeltaNet;
  if (has_part(name, ".mlp.gate.") || has_part(name, ".router.")) return ModuleKind::kRouter;
  if (has_part(name, ".shared_expert")) return ModuleKind::kSharedExpert;
  if (has_part(name, ".switch_mlp.") || has_part(name, ".experts.")) return ModuleKind::kExperts;
  if (has_part(name, ".self_conditioning.")) return ModuleKind::kSelfConditioning;
  if (has_part(name, ".mlp.")) return ModuleKind::kMlp;
  return ModuleKind::kOther;
}

double ModuleSummary::bits_per_weight() const {
  return parameters == 0 ? 0 : static_cast<double>(bytes) * 8 / static_cast<double>(parameters);
}

CheckpointSummary summarize(const Checkpoint& checkpoint) {
  const Summarizer summarizer(checkpoint);
  std::map<ModuleKind, ModuleSummary> kinds;
  CheckpointSummary summary;
  for (const TensorView* tensor : checkpoint.tensors()) {
    const ModuleKind kind = module_kind(tensor->name);
    summarizer.add(*tensor, kinds[kind]);
    if (kind != ModuleKind::kSkipped) summarizer.add(*tensor, summary.total);
  }
  summary.kinds.assign(kinds.begin(), kinds.end());
  return summary;
}

}  // namespace weir
