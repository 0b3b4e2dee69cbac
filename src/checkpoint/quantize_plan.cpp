#include "checkpoint/quantize_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoint/json_fields.h"
#include "checkpoint/names.h"
#include "checkpoint/quote.h"

namespace weir {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kFusedExperts = ".experts.gate_up_proj";
constexpr std::string_view kFusedDown = ".experts.down_proj";

// Of the draft head: few bytes that every guess goes through. NVIDIA's quantised checkpoints leave it whole
// too.
constexpr std::string_view kDraftFusion = "mtp.fc";

bool ends_with_any(std::string_view name, std::span<const std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&](auto suffix) { return name.ends_with(suffix); });
}

// Norms that Hugging Face's Qwen stores as gain - 1.
bool is_zero_centred_norm(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNorms = {"input_layernorm.weight",
                                                      "post_attention_layernorm.weight",
                                                      "model.norm.weight",
                                                      "q_norm.weight",
                                                      "k_norm.weight",
                                                      "mtp.norm.weight",
                                                      "pre_fc_norm_hidden.weight",
                                                      "pre_fc_norm_embedding.weight"};
  return ends_with_any(name, kNorms);
}

bool is_vision(std::string_view name) {
  return name.find("vision") != std::string_view::npos || name.starts_with("model.visual.");
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kBf16 || dtype == Dtype::kF16 || dtype == Dtype::kF32;
}

Error wrong_shape(const TensorView& tensor, const std::string& expected) {
  return Error{
      Code::kCorrupt,
      fmt::format("tensor {} is {}, expected {}", quote(tensor.name), shape_text(tensor.shape), expected),
      "the checkpoint is of a variant that weir does not know"};
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, ModelFamily family, const QuantizeRecipe& recipe)
      : checkpoint_(checkpoint), family_(family), recipe_(recipe) {}

  Result<QuantizePlan> plan() {
    for (const TensorView* tensor : checkpoint_.tensors()) {
      if (tensor->dtype == Dtype::kU32 || tensor->name.ends_with(".scales")) {
        return Error{
            Code::kInvalidArgument,
            fmt::format("{} is quantised already: tensor {}", checkpoint_.folder(), quote(tensor->name)),
            "name the bfloat16 checkpoint that it was made from"};
      }
      WEIR_RETURN_IF_ERROR(family_ == ModelFamily::kQwen ? add_qwen(*tensor) : add_gemma(*tensor));
    }
    std::sort(plan_.tensors.begin(), plan_.tensors.end(),
              [](const PlannedTensor& a, const PlannedTensor& b) { return a.name < b.name; });
    return std::move(plan_);
  }

 private:
  bool from_hugging_face() const { return checkpoint_.layout() == Layout::kHuggingFace; }

  Status add_qwen(const TensorView& tensor) {
    const bool draft_head = tensor.name.starts_with(kDraftHeadPrefix);
    if (is_vision_or_mtp(tensor.name) && !draft_head) return Ok{};
    const std::string name = draft_head ? tensor.name : "language_model." + canonical_name(tensor.name);
    if (name.ends_with(kFusedExperts)) return split_experts(tensor, name);
    if (name.ends_with(kFusedDown)) {
      const std::string stem = name.substr(0, name.size() - kFusedDown.size());
      add(tensor, stem + ".switch_mlp.down_proj.weight", tensor.shape);
    } else if (name.ends_with("conv1d.weight")) {
      // [channels, 1, taps] and [channels, taps, 1] are the same bytes.
      if (tensor.shape.size() != 3) return wrong_shape(tensor, "three dimensions");
      add(tensor, name, {tensor.shape[0], tensor.shape[1] * tensor.shape[2], 1});
    } else {
      add(tensor, name, tensor.shape);
      plan_.tensors.back().add_one = from_hugging_face() && is_zero_centred_norm(name);
    }
    return Ok{};
  }

  // Gate, then up, in each expert: [E, 2 I, H].
  Status split_experts(const TensorView& tensor, const std::string& name) {
    const std::string stem = name.substr(0, name.size() - kFusedExperts.size()) + ".switch_mlp.";
    const auto& shape = tensor.shape;
    if (shape.size() != 3 || shape[1] == 0 || shape[1] % 2 != 0) {
      return wrong_shape(tensor, "[experts, 2 * intermediate, hidden]");
    }
    const int64_t half = shape[1] / 2;
    for (const bool up : {false, true}) {
      add(tensor, stem + (up ? "up_proj.weight" : "gate_proj.weight"), {shape[0], half, shape[2]});
      plan_.tensors.back().slice_rows = half;
      plan_.tensors.back().source_slice_rows = shape[1];
      plan_.tensors.back().first_row = up ? half : 0;
    }
    return Ok{};
  }

  Status add_gemma(const TensorView& tensor) {
    const std::string& name = tensor.name;
    const bool encoder_copy =
        name.starts_with("model.encoder.language_model.") && !name.ends_with(".layer_scalar");
    const bool has_decoder = checkpoint_.has("model.decoder.embed_tokens.weight");
    if (name.starts_with("lm_head.") || name.find("rotary_emb") != std::string::npos) return Ok{};
    if (encoder_copy && has_decoder) return Ok{};  // tied to the decoder's
    const bool bare = name.ends_with(kFusedExperts) || name.ends_with(kFusedDown);
    add(tensor, bare ? name + std::string(kWeight) : name, tensor.shape);
    return Ok{};
  }

  void add(const TensorView& tensor, std::string name, std::vector<int64_t> shape) {
    PlannedTensor planned;
    planned.name = std::move(name);
    planned.source = &tensor;
    planned.shape = std::move(shape);
    planned.slice_rows = planned.source_slice_rows = std::max<int64_t>(planned.rows(), 1);
    choose_precision(planned);
    plan_.tensors.push_back(std::move(planned));
  }

  // The module whose kind says how many bits this one gets: the draft head's layer is one like the model's.
  static std::string kind_of(const std::string& module) {
    if (!module.starts_with(kDraftHeadPrefix)) return canonical_name(module);
    return "model." + module.substr(kDraftHeadPrefix.size());
  }

  void choose_precision(PlannedTensor& planned) {
    const bool is_matrix = planned.shape.size() >= 2 && planned.name.ends_with(kWeight) &&
                           !planned.name.ends_with("conv1d.weight") && !is_vision(planned.name) &&
                           is_float(planned.source->dtype) && planned.source->elements() > 0;
    if (!is_matrix) return;
    const std::string module = planned.name.substr(0, planned.name.size() - kWeight.size());
    if (module == kDraftFusion) return;
    const Precision wanted = recipe_.of(kind_of(module));
    planned.importance = canonical_name(module);
    if (wanted.plain()) return;
    if (planned.cols() % wanted.group != 0) {
      plan_.notes.push_back(fmt::format("{} stays {}: its rows of {} are no whole number of groups of {}",
                                        quote(module), dtype_name(planned.source->dtype), planned.cols(),
                                        wanted.group));
      return;
    }
    planned.precision = wanted;
    planned.name = module;
  }

  const Checkpoint& checkpoint_;
  ModelFamily family_;
  const QuantizeRecipe& recipe_;
  QuantizePlan plan_;
};

}  // namespace

int64_t PlannedTensor::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

Result<ModelFamily> model_family(const Checkpoint& checkpoint) {
  const std::string where = checkpoint.config_path();
  WEIR_TRY(const std::string type, json_string(checkpoint.config(), "model_type", where));
  if (type == "qwen3_5_moe" || type == "qwen3_5_moe_text") return ModelFamily::kQwen;
  if (type == "diffusion_gemma") return ModelFamily::kDiffusionGemma;
  return Error{Code::kUnsupported, fmt::format("{}: model_type is {}", where, quote(type)),
               "weir quantises Qwen3.6 (qwen3_5_moe) and DiffusionGemma (diffusion_gemma)"};
}

Result<QuantizePlan> plan_quantization(const Checkpoint& checkpoint, ModelFamily family,
                                       const QuantizeRecipe& recipe) {
  return Planner(checkpoint, family, recipe).plan();
}

}  // namespace weir
