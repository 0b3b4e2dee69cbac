#include "checkpoint/synthetic.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "checkpoint/synthetic_models.h"

namespace weir {
namespace {

struct Known {
  std::string_view name;
  int64_t layers;
  Result<Checkpoint> (*make)(std::string origin, int64_t layers);
};

constexpr Known kKnown[] = {
    {"qwen3.6-35b-a3b", synthetic::kQwenLayers, synthetic::qwen},
    {"diffusiongemma-26b-a4b", synthetic::kDiffusionGemmaLayers, synthetic::diffusion_gemma}};

Error unknown(std::string_view reference) {
  std::string known;
  for (const Known& k : kKnown) {
    known +=
        fmt::format("{}{}{}[,layers=1 to {}]", known.empty() ? "" : ", ", kSyntheticPrefix, k.name, k.layers);
  }
  return {Code::kInvalidArgument, fmt::format("unknown synthetic model '{}'", reference), "known: " + known};
}

}  // namespace

Result<Checkpoint> synthetic_checkpoint(std::string_view reference) {
  std::string_view rest = reference;
  if (!rest.starts_with(kSyntheticPrefix)) return unknown(reference);
  rest.remove_prefix(kSyntheticPrefix.size());
  const size_t comma = rest.find(',');
  const Known* known = nullptr;
  for (const Known& k : kKnown) {
    if (k.name == rest.substr(0, comma)) known = &k;
  }
  if (known == nullptr) return unknown(reference);
  int64_t layers = known->layers;
  if (comma != std::string_view::npos) {
    constexpr std::string_view kOption = "layers=";
    const std::string_view option = rest.substr(comma + 1);
    if (!option.starts_with(kOption)) return unknown(reference);
    const char* end = option.data() + option.size();
    const auto [stop, error] = std::from_chars(option.data() + kOption.size(), end, layers);
    if (error != std::errc() || stop != end || layers < 1 || layers > known->layers)
      return unknown(reference);
  }
  return known->make(std::string(reference), layers);
}

}  // namespace weir
