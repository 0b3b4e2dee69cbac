// A Qwen3.6 model, loaded: what generation talks to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/steps.h"
#include "models/kernel_use.h"
#include "models/qwen/config.h"
#include "models/qwen/draft_rows.h"
#include "models/qwen/weights.h"
#include "models/qwen/workspace.h"

namespace weir::qwen {

struct LoadOptions {
  int64_t max_rows = 512;   // rows of one pass: the prefill chunk
  int64_t max_wanted = 16;  // rows of one pass whose logits can be asked for
  bool draft_head = false;  // load the multi-token prediction head too
};

class Model {
 public:
  // Packs the checkpoint's weights for the backend. Progress counts bytes of the checkpoint.
  static Result<std::unique_ptr<Model>> load(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                             const LoadOptions& options, const Progress& progress);

  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  Steps& steps() { return *steps_; }
  int64_t max_rows() const { return workspace_.max_rows(); }
  int64_t max_wanted() const { return workspace_.max_wanted(); }

  // A sequence at position 0.
  Result<SequenceState> new_sequence();

  // A copy of a sequence at its present position, which goes on independently. Keys and values are shared.
  Result<SequenceState> copy(const SequenceState& state);

  // Where a sequence was, so that it can go back there: a recurrent state has no earlier tokens in it, keys
  // and values do.
  struct Bookmark {
    int64_t position = 0;
    std::vector<DeltaState> delta;
  };

  // Marks the present position; the bookmark's memory is used again. Errors: kOutOfMemory, kDevice.
  Status mark(const SequenceState& state, Bookmark& bookmark);

  // Takes the sequence back to the bookmark, which holds nothing of use afterwards.
  void go_back(SequenceState& state, Bookmark& bookmark);

  // One pass: reserves pages, runs the batch and advances its sequences. The logits [wanted, V] are host
  // memory, valid until the next call. Errors: kInvalidArgument for a token outside the vocabulary, too many
  // rows or wanted rows, or a position beyond the context; kOutOfMemory for pages; kDevice, after which the
  // sequences of the batch must be dropped.
  Result<std::span<const float>> run(const Batch& batch);

  std::vector<KernelUse> kernels() const;

  bool has_draft_head() const { return draft_rows_.has_value(); }

  // For a model loaded with its draft head: what the head keeps of a sequence, its own keys and values.
  // Error: kOutOfMemory.
  Result<SequenceState> new_draft_sequence();

  // Lets the draft head see the rows [first_row, first_row + tokens) of the last run, each with the token
  // that follows it, and guesses the `most` tokens behind the last of these. `pairs` goes on by `tokens`, one
  // at least; guesses leave nothing in it. Errors: kOutOfMemory, and kDevice, after which `pairs` must be
  // dropped.
  Result<std::vector<int32_t>> draft(SequenceState& pairs, int64_t first_row, std::span<const int32_t> tokens,
                                     int64_t most);

  // One pass, and then the choice of a token from the logits of its last row, which is the only one wanted;
  // waits for neither. `chooser` comes from steps().make_chooser. Errors as run() has, those of the device
  // when the token is taken.
  Status queue(const Batch& batch, TokenChooser& chooser);

  // Bytes that decoding one token at `position` must move: the weights that it touches, recurrent state read
  // and written, keys and values read.
  uint64_t bytes_per_token(int64_t position) const;

 private:
  Model(Config config, Checkpoint checkpoint, std::unique_ptr<Steps> steps)
      : config_(std::move(config)), checkpoint_(std::move(checkpoint)), steps_(std::move(steps)) {}

  Result<std::vector<DeltaState>> new_recurrent_states();
  Status copy_recurrent_states(std::vector<DeltaState>& to, const std::vector<DeltaState>& from);
  Status check(const Batch& batch) const;
  Result<Pass> start(const Batch& batch);
  static void advance(const Batch& batch);
  Status reserve_pages(SequenceState& state, int64_t positions);
  Result<int32_t> draft_pass(SequenceState& pairs, std::span<const int32_t> tokens, Rows hidden, bool wanted);

  // Order matters: weights may be views of the checkpoint, and their memory belongs to the backend.
  Config config_;
  Checkpoint checkpoint_;
  std::unique_ptr<Steps> steps_;
  Weights weights_;
  Workspace workspace_;
  std::vector<float> logits_;
  std::optional<DraftRows> draft_rows_;
};

}  // namespace weir::qwen
