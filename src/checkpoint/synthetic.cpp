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
  Result<Checkpoint> (*make)(std::string origin, synthetic::Size size);
};

constexpr Known kKnown[] = {
    {"qwen3.6-35b-a3b", synthetic::kQwenLayers, synthetic::qwen},
    {"diffusiongemma-26b-a4b", synthetic::kDiffusionGemmaLayers, synthetic::diffusion_gemma}};

Error unknown(std::string_view reference) {
  std::string known;
  for (const Known& k : kKnown) {
    known += fmt::format("{}{}{}[,layers=1 to {}][,experts=2, 3 or 4]", known.empty() ? "" : ", ",
                         kSyntheticPrefix, k.name, k.layers);
  }
  return {Code::kInvalidArgument, fmt::format("unknown synthetic model '{}'", reference), "known: " + known};
}

// Whether `option` is "NAME=N" within [low, high], for the first time: `value` was 0.
bool read_option(std::string_view option, std::string_view name, int64_t low, int64_t high, int64_t* value) {
  if (!option.starts_with(name) || *value != 0) return false;
  const char* end = option.data() + option.size();
  const auto [stop, error] = std::from_chars(option.data() + name.size(), end, *value);
  return error == std::errc() && stop == end && *value >= low && *value <= high;
}

}  // namespace

Result<Checkpoint> synthetic_checkpoint(std::string_view reference) {
  std::string_view rest = reference;
  if (!rest.starts_with(kSyntheticPrefix)) return unknown(reference);
  rest.remove_prefix(kSyntheticPrefix.size());
  size_t comma = rest.find(',');
  const Known* known = nullptr;
  for (const Known& k : kKnown) {
    if (k.name == rest.substr(0, comma)) known = &k;
  }
  if (known == nullptr) return unknown(reference);
  synthetic::Size size{0, 0};
  while (comma != std::string_view::npos) {
    rest.remove_prefix(comma + 1);
    comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    if (!read_option(option, "layers=", 1, known->layers, &size.layers) &&
        !read_option(option, "experts=", 2, 4, &size.expert_bits))
      return unknown(reference);
  }
  if (size.layers == 0) size.layers = known->layers;
  if (size.expert_bits == 0) size.expert_bits = 4;
  return known->make(std::string(reference), size);
}

}  // namespace weir
