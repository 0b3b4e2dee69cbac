// Tensor names of the layouts that hold the same model, brought to one spelling.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// MLX's spelling without its "language_model." prefix:
//   Hugging Face   model.language_model.X, lm_head.X                  -> model.X, lm_head.X
//   MLX            language_model.model.X, language_model.lm_head.X   -> model.X, lm_head.X
// Everything else, such as text-only exports and DiffusionGemma's model.decoder.X, stays as it is. Module
// paths of config.json's quantisation section are spelled alike.
std::string canonical_name(std::string_view name);

// Tensors of the multi-token prediction head, and the file that holds them in a folder that weir quantised:
// MLX's loaders read model*.safetensors alone, and some take these tensors for a sign of zero-centred norms.
inline constexpr std::string_view kDraftHeadPrefix = "mtp.";
inline constexpr const char* kDraftHeadFile = "mtp.safetensors";

// Tensors of the vision tower and of multi-token prediction, which the text model does not read.
bool is_vision_or_mtp(std::string_view name);

}  // namespace weir
