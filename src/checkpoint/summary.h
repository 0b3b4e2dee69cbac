// What a checkpoint holds, by the part of the model it belongs to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace weir {

// Dense MLPs and DiffusionGemma's self-conditioning have kinds of their own; kSkipped is vision and
// multi-token prediction.
enum class ModuleKind {
  kEmbedding,
  kHead,
  kAttention,
  kDeltaNet,
  kRouter,
  kExperts,
  kSharedExpert,
  kMlp,
  kSelfConditioning,
  kNorms,
  kOther,
  kSkipped,
};

std::string_view module_kind_name(ModuleKind kind);  // "delta net", "shared expert"

// Kind of a tensor by its name as a file spells it, in any layout of either model.
ModuleKind module_kind(std::string_view name);

struct ModuleSummary {
  int64_t tensors = 0;
  int64_t parameters = 0;  // of the model: packed values, not words, and no scales or biases
  uint64_t bytes = 0;      // with scales and biases
  std::map<std::string, int64_t> encodings;  // parameters by Encoding::text() or lower-case dtype

  double bits_per_weight() const;  // 0 without parameters
};

struct CheckpointSummary {
  std::vector<std::pair<ModuleKind, ModuleSummary>> kinds;  // those that occur, in the order of ModuleKind
  ModuleSummary total;                                      // of all kinds but kSkipped
};

// Reads shapes and config.json only, no weights. Where config.json has no entry for a packed matrix and its
// defaults do not fit the shapes, groups of 64 are assumed, then 32, then 128.
CheckpointSummary summarize(const Checkpoint& checkpoint);

}  // namespace weir
