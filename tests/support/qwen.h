// Driving a Qwen model in tests: whole prompts, cut prompts, greedy continuations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "models/qwen/model.h"

namespace weir::test {

using Tokens = std::vector<int32_t>;

inline std::unique_ptr<qwen::Model> load_qwen(const std::string& folder, std::unique_ptr<Steps> steps,
                                              const qwen::LoadOptions& options) {
  auto checkpoint = Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return nullptr;
  auto model = qwen::Model::load(std::move(*checkpoint), std::move(steps), options, {});
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

inline SequenceState new_sequence(qwen::Model& model) {
  auto state = model.new_sequence();
  EXPECT_TRUE(state.ok());
  return std::move(*state);
}

// One pass over `tokens`; logits of every row.
inline std::vector<float> run_pass(qwen::Model& model, SequenceState& state,
                                   std::span<const int32_t> tokens) {
  std::vector<int32_t> wanted(tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const Segment segment{&state, 0, static_cast<int64_t>(tokens.size())};
  auto logits = model.run({tokens, {&segment, 1}, wanted});
  EXPECT_TRUE(logits.ok()) << logits.error().message;
  return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>{};
}

// `tokens` in passes of the given sizes; logits of every row.
inline std::vector<float> run_cut(qwen::Model& model, SequenceState& state, std::span<const int32_t> tokens,
                                  std::span<const size_t> sizes) {
  std::vector<float> logits;
  size_t at = 0;
  for (const size_t size : sizes) {
    const auto part = run_pass(model, state, tokens.subspan(at, size));
    logits.insert(logits.end(), part.begin(), part.end());
    at += size;
  }
  EXPECT_EQ(at, tokens.size());
  return logits;
}

inline int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Greedy continuation of `prompt`, at most `count` tokens, ending with the first of `stops`.
inline Tokens greedy(qwen::Model& model, const Tokens& prompt, size_t count, std::span<const int32_t> stops) {
  SequenceState state = new_sequence(model);
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
  Tokens out, next = prompt;
  while (out.size() < count) {
    const std::vector<int32_t> wanted{static_cast<int32_t>(next.size()) - 1};
    const Segment segment{&state, 0, static_cast<int64_t>(next.size())};
    auto logits = model.run({next, {&segment, 1}, wanted});
    EXPECT_TRUE(logits.ok()) << logits.error().message;
    if (!logits.ok()) break;
    out.push_back(argmax(logits->first(vocabulary)));
    if (std::find(stops.begin(), stops.end(), out.back()) != stops.end()) break;
    next = {out.back()};
  }
  return out;
}

}  // namespace weir::test
