#include "checkpoint/quantize_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "checkpoint/quote.h"

namespace weir {
namespace {

constexpr std::array kParts = {ModuleKind::kEmbedding,    ModuleKind::kHead,   ModuleKind::kAttention,
                               ModuleKind::kDeltaNet,     ModuleKind::kRouter, ModuleKind::kExperts,
                               ModuleKind::kSharedExpert, ModuleKind::kMlp,    ModuleKind::kSelfConditioning};

// "delta-net", as it is written in a recipe.
std::string part_name(ModuleKind kind) {
  std::string name(module_kind_name(kind));
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string part_names() {
  std::string names;
  for (const ModuleKind kind : kParts) names += (names.empty() ? "" : ", ") + part_name(kind);
  return names;
}

std::optional<ModuleKind> find_part(std::string_view name) {
  const auto found =
      std::find_if(kParts.begin(), kParts.end(), [&](ModuleKind kind) { return part_name(kind) == name; });
  return found == kParts.end() ? std::nullopt : std::optional(*found);
}

// Where MLX's converters depart from the base (mlx-lm 0.32, mlx-vlm 0.7).
std::span<const ModuleKind> eight_bit_parts(ModelFamily family) {
  static constexpr std::array kQwen = {ModuleKind::kRouter};
  static constexpr std::array kGemma = {ModuleKind::kRouter, ModuleKind::kEmbedding, ModuleKind::kAttention,
                                        ModuleKind::kMlp};
  return family == ModelFamily::kQwen ? std::span<const ModuleKind>(kQwen) : kGemma;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc{} && read.ptr == end ? std::optional(value) : std::nullopt;
}

template <size_t N>
bool is_one_of(const std::array<int, N>& known, const std::optional<int>& value) {
  return value && std::find(known.begin(), known.end(), *value) != known.end();
}

Status check(const Precision& precision, std::string_view item) {
  constexpr std::array kBits = {2, 3, 4, 5, 6, 8};
  constexpr std::array kGroups = {32, 64, 128};
  if (!precision.plain() && !is_one_of(kBits, precision.bits)) {
    return Error{Code::kInvalidArgument, fmt::format("{} bits were asked for{}", precision.bits, item),
                 "2, 3, 4, 5, 6 or 8 bits; bf16 for a part"};
  }
  if (is_one_of(kGroups, precision.group)) return Ok{};
  return Error{Code::kInvalidArgument, fmt::format("groups of {} were asked for{}", precision.group, item),
               "groups of 32, 64 or 128"};
}

// "2", "8:32", "bf16".
Result<Precision> parse_precision(std::string_view text, int group, std::string_view item) {
  if (text == "bf16") return Precision{0, group};
  const size_t colon = text.find(':');
  const auto bits = number(text.substr(0, colon));
  const auto own_group = colon == std::string_view::npos ? group : number(text.substr(colon + 1));
  if (bits && *bits != 0 && own_group) return Precision{*bits, *own_group};
  return Error{Code::kInvalidArgument, fmt::format("the recipe's {} has no bits", quote(item)),
               "such as experts=2, attention=8:32 or head=bf16"};
}

}  // namespace

Result<QuantizeRecipe> QuantizeRecipe::make(ModelFamily family, Precision base, std::string_view departures) {
  if (base.plain()) return Error{Code::kInvalidArgument, "0 bits were asked for", "2, 3, 4, 5, 6 or 8 bits"};
  WEIR_RETURN_IF_ERROR(check(base, ""));
  QuantizeRecipe recipe;
  recipe.base_ = base;
  for (const ModuleKind kind : eight_bit_parts(family)) recipe.parts_[kind] = {8, 64};
  while (!departures.empty()) {
    const std::string_view item = departures.substr(0, departures.find(','));
    departures.remove_prefix(std::min(departures.size(), item.size() + 1));
    const size_t equals = item.find('=');
    const auto part = find_part(item.substr(0, equals));
    if (!part || equals == std::string_view::npos) {
      return Error{Code::kInvalidArgument, fmt::format("the recipe's {} names no part", quote(item)),
                   "part=bits with one of " + part_names()};
    }
    WEIR_TRY(const Precision precision, parse_precision(item.substr(equals + 1), base.group, item));
    WEIR_RETURN_IF_ERROR(check(precision, fmt::format(" by the recipe's {}", quote(item))));
    recipe.parts_[*part] = precision;
  }
  return recipe;
}

Precision QuantizeRecipe::of(std::string_view module) const {
  // The shared expert's gate is one more row of the router.
  const ModuleKind kind = module.ends_with(".shared_expert_gate")
                              ? ModuleKind::kRouter
                              : module_kind(std::string(module) + ".weight");
  const auto part = parts_.find(kind);
  return part == parts_.end() ? base_ : part->second;
}

}  // namespace weir
