// A DiffusionGemma model, loaded: what generation talks to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/diffusion_steps.h"
#include "models/diffusion_gemma/config.h"
#include "models/diffusion_gemma/weights.h"
#include "models/diffusion_gemma/workspace.h"
#include "models/kernel_use.h"

namespace weir::diffusion_gemma {

class Model {
 public:
  // Packs the checkpoint's weights for the backend; passes have up to `max_rows` rows, at least two canvases.
  // Progress counts bytes of the checkpoint. Errors: those of the checkpoint; kUnsupported when the backend
  // has no diffusion steps.
  static Result<std::unique_ptr<Model>> load(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                             int64_t max_rows, const Progress& progress);

  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  Steps& steps() { return *steps_; }
  int64_t max_rows() const { return workspace_.max_rows(); }

  // A sequence at position 0, and a canvas without expected embeddings.
  Result<SequenceState> new_sequence();
  Result<CanvasState> new_canvas();

  // A copy of a sequence, which goes on independently. Keys and values are shared.
  SequenceState copy(const SequenceState& state) const;

  // Forgets the canvas's expected embeddings. Its keys and values stay until a pass replaces them.
  void clear(CanvasState& canvas);

  // Takes tokens away from the end of a sequence until `position` are left. False, and nothing done, when the
  // keys and values that its sliding layers would need are gone: a sequence keeps only those of its last
  // window + kKeptBehindWindow positions.
  bool cut(SequenceState& state, int64_t position);
  bool can_cut(const SequenceState& state, int64_t position) const;
  static constexpr int64_t kKeptBehindWindow = 2 * kKvPage;

  // One pass: reserves pages, runs the batch and advances its causal sequences. The beliefs, one for each
  // inquiry, are host memory, valid until the next call. Errors: kInvalidArgument for a token outside the
  // vocabulary, too many rows, or a position beyond the context; kOutOfMemory for pages; kDevice or
  // kInternal, after which the batch's sequences must be dropped.
  Result<std::span<const Belief>> run(const CanvasBatch& batch);

  std::vector<KernelUse> kernels() const;

  // Bytes of weights that a pass over many rows reads: all of them.
  uint64_t bytes_per_pass() const;

 private:
  Model(Config config, Checkpoint checkpoint, std::unique_ptr<Steps> steps)
      : config_(std::move(config)), checkpoint_(std::move(checkpoint)), steps_(std::move(steps)) {}

  Status check(const CanvasBatch& batch) const;
  Status reserve_pages(SequenceState& state, int64_t positions);
  void release_pages(SequenceState& state) const;

  // Order matters: weights may be views of the checkpoint, and their memory belongs to the backend.
  Config config_;
  Checkpoint checkpoint_;
  std::unique_ptr<Steps> steps_;
  Weights weights_;
  Workspace workspace_;
  std::vector<Belief> beliefs_;
  std::vector<float> zeros_;  // [canvas, H]
};

}  // namespace weir::diffusion_gemma
