#include "checkpoint/names.h"

namespace weir {

std::string canonical_name(std::string_view name) {
  constexpr std::string_view kHuggingFace = "model.language_model.";
  constexpr std::string_view kMlx = "language_model.";
  if (name.starts_with(kHuggingFace)) return "model." + std::string(name.substr(kHuggingFace.size()));
  if (name.starts_with(kMlx)) return std::string(name.substr(kMlx.size()));
  return std::string(name);
}

bool is_vision_or_mtp(std::string_view name) {
  for (const std::string_view prefix :
       {"vision_tower.", "model.visual.", "model.encoder.vision_tower.", "model.encoder.embed_vision."}) {
    if (name.starts_with(prefix)) return true;
  }
  return name.find("mtp.") != std::string_view::npos;
}

}  // namespace weir
