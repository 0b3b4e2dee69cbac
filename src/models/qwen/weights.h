// The weights of a Qwen3.6 model, stacked by use and packed for one backend.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/steps.h"
#include "models/qwen/config.h"
#include "models/qwen/draft_head.h"
#include "models/qwen/layer.h"

namespace weir::qwen {

struct Weights {
  std::unique_ptr<Embedding> embedding;  // [V, H]
  std::vector<Layer> layers;
  Vector norm;                   // [H]
  std::unique_ptr<Linear> head;  // [V, H]
  std::optional<DraftHead> draft_head;
};

// Whether the checkpoint has a multi-token prediction head.
bool has_draft_head(const Checkpoint& checkpoint);

// Reads every tensor of the checkpoint and packs it; those of the draft head only where it is asked for.
// Progress counts bytes of the checkpoint. Errors: a missing tensor, one of the wrong shape, or one that
// nobody reads, each by name; kNotFound for a draft head that is not there.
Result<Weights> load_weights(Checkpoint& checkpoint, const Config& config, Steps& steps, bool draft_head,
                             const Progress& progress);

}  // namespace weir::qwen
