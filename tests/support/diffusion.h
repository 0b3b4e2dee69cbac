// Driving a DiffusionGemma model in tests: prefills, canvas passes, and what lies inside them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/reference/reference_steps.h"
#include "models/diffusion_gemma/model.h"

namespace weir::test {

using Tokens = std::vector<int32_t>;

// Rows that the reference steps show, by stage, in the order of the calls.
class Stages {
 public:
  StageProbe probe() {
    return [this](std::string_view stage, std::span<const float> row) {
      rows_[std::string(stage)].emplace_back(row.begin(), row.end());
    };
  }
  void clear() { rows_.clear(); }

  // Rows [first, first + count) of a stage, one after the other; count 0: all from first on.
  std::vector<float> rows(const std::string& stage, size_t first = 0, size_t count = 0) const {
    std::vector<float> out;
    const auto found = rows_.find(stage);
    if (found == rows_.end()) return out;
    const size_t end = count == 0 ? found->second.size() : std::min(found->second.size(), first + count);
    for (size_t i = first; i < end; ++i) {
      out.insert(out.end(), found->second[i].begin(), found->second[i].end());
    }
    return out;
  }

 private:
  std::map<std::string, std::vector<std::vector<float>>> rows_;
};

inline std::unique_ptr<diffusion_gemma::Model> load_diffusion(Result<Checkpoint> checkpoint,
                                                              std::unique_ptr<Steps> steps,
                                                              int64_t max_rows = 512) {
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return nullptr;
  auto model = diffusion_gemma::Model::load(std::move(*checkpoint), std::move(steps), max_rows, {});
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

inline std::unique_ptr<diffusion_gemma::Model> load_diffusion(const std::string& folder,
                                                              std::unique_ptr<Steps> steps,
                                                              int64_t max_rows = 512) {
  return load_diffusion(Checkpoint::open(folder), std::move(steps), max_rows);
}

template <class T>
T taken(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.error().message;
  return std::move(*result);
}

inline Tokens first_tokens(const Tokens& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

inline std::vector<int32_t> count_up(size_t count, int32_t first = 0) {
  std::vector<int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Feeds committed tokens; asks about the last `asked` of them.
inline std::vector<Belief> feed(diffusion_gemma::Model& model, SequenceState& state,
                                std::span<const int32_t> tokens, size_t asked = 0) {
  const Segment segment{&state, 0, static_cast<int64_t>(tokens.size())};
  std::vector<Inquiry> inquiries;
  for (size_t r = tokens.size() - asked; r < tokens.size(); ++r) {
    inquiries.push_back({.row = static_cast<int32_t>(r), .temperature = 1, .draw = {}});
  }
  CanvasBatch batch;
  batch.tokens = tokens;
  batch.segments = {&segment, 1};
  batch.inquiries = inquiries;
  const auto beliefs = model.run(batch);
  EXPECT_TRUE(beliefs.ok()) << beliefs.error().message;
  return beliefs.ok() ? std::vector<Belief>(beliefs->begin(), beliefs->end()) : std::vector<Belief>{};
}

struct CanvasPass {
  float temperature = 1;
  bool conditioned = true;
  int32_t soft_tokens = kAllTokens;
  std::vector<int32_t> slots = {};  // empty: all
};

// One pass over a canvas behind the committed tokens; asks about every forwarded slot.
inline std::vector<Belief> denoise(diffusion_gemma::Model& model, SequenceState& state, CanvasState& canvas,
                                   const Tokens& tokens, const CanvasPass& pass) {
  const std::vector<int32_t> slots = pass.slots.empty() ? count_up(tokens.size()) : pass.slots;
  Tokens rows;
  std::vector<Inquiry> inquiries;
  for (const int32_t slot : slots) {
    inquiries.push_back({.row = static_cast<int32_t>(rows.size()),
                         .temperature = pass.temperature,
                         .draw = {.seed = 1, .position = static_cast<uint32_t>(slot)},
                         .soft_tokens = pass.soft_tokens});
    rows.push_back(tokens[static_cast<size_t>(slot)]);
  }
  const CanvasSegment segment{&state, &canvas, state.position, static_cast<int64_t>(tokens.size()), 0, slots};
  CanvasBatch batch;
  batch.tokens = rows;
  batch.canvases = {&segment, 1};
  batch.inquiries = inquiries;
  batch.conditioned = pass.conditioned;
  const auto beliefs = model.run(batch);
  EXPECT_TRUE(beliefs.ok()) << beliefs.error().message;
  return beliefs.ok() ? std::vector<Belief>(beliefs->begin(), beliefs->end()) : std::vector<Belief>{};
}

}  // namespace weir::test
