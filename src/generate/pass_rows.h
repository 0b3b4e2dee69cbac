// The rows of one pass of a diffusion model, put together: causal rows first, then canvases.
#pragma once

#include <span>
#include <vector>

#include "generate/canvas.h"
#include "kernels/state.h"

namespace weir {

class PassRows {
 public:
  // Tokens that `state` takes in, with beliefs about what follows each of them if `asked`. All causal rows
  // are added before the first canvas.
  void add_causal(SequenceState& state, std::span<const int32_t> tokens, bool asked) {
    for (int64_t r = 0; asked && r < static_cast<int64_t>(tokens.size()); ++r) {
      inquiries_.push_back(
          {.row = static_cast<int32_t>(rows() + r), .temperature = 1, .draw = {}, .soft_tokens = 0});
    }
    segments_.push_back({&state, rows(), static_cast<int64_t>(tokens.size())});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  // The next pass of `canvas`, behind the first `committed` tokens of the sequence.
  void add_canvas(SequenceState& state, CanvasState& memory, const Canvas& canvas, int64_t committed) {
    canvases_.push_back({&state, &memory, committed, canvas.length(), rows(), canvas.slots()});
    conditioned_ = conditioned_ || canvas.passes() > 0;
    size_t next = 0;
    const std::span<const int32_t> asked = canvas.asked();
    for (const int32_t slot : canvas.slots()) {
      if (next < asked.size() && asked[next] == slot) {
        ++next;
        inquiries_.push_back({.row = static_cast<int32_t>(tokens_.size()),
                              .temperature = canvas.temperature(),
                              .draw = canvas.draw(slot),
                              .soft_tokens = canvas.soft_tokens()});
      }
      tokens_.push_back(canvas.token(slot));
    }
  }

  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  size_t inquiries() const { return inquiries_.size(); }

  // Views of this object.
  CanvasBatch batch() const {
    CanvasBatch batch;
    batch.tokens = tokens_;
    batch.segments = segments_;
    batch.canvases = canvases_;
    batch.inquiries = inquiries_;
    batch.conditioned = conditioned_;
    return batch;
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  std::vector<CanvasSegment> canvases_;
  std::vector<Inquiry> inquiries_;
  bool conditioned_ = false;
};

}  // namespace weir
