// How many bits each part of a model gets.
#pragma once

#include <map>
#include <string_view>

#include "base/result.h"
#include "checkpoint/summary.h"

namespace weir {

enum class ModelFamily { kQwen, kDiffusionGemma };

struct Precision {
  int bits = 4;    // 2, 3, 4, 5, 6, 8, or 0: bfloat16
  int group = 64;  // 32, 64, 128

  bool plain() const { return bits == 0; }
  friend bool operator==(const Precision&, const Precision&) = default;
};

class QuantizeRecipe {
 public:
  // `base`, not plain, for all parts, except where MLX's converter of the family departs from it (routers
  // have 8 bits; DiffusionGemma's embedding, attention and dense MLPs too), and then what `departures` says,
  // such as "experts=2,attention=8:32,head=bf16": part=bits[:group]. Errors: kInvalidArgument, naming the
  // item.
  static Result<QuantizeRecipe> make(ModelFamily family, Precision base, std::string_view departures);

  const Precision& base() const { return base_; }

  // Of the matrix `module`, by its canonical path.
  Precision of(std::string_view module) const;

 private:
  Precision base_;
  std::map<ModuleKind, Precision> parts_;
};

}  // namespace weir
