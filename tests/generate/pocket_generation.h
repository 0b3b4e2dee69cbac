// Generating with the pocket model and the reference steps, and comparing answers down to the bits of their
// states.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "generate/autoregressive.h"
#include "kernels/observe/forwarding_steps.h"
#include "kernels/reference/reference_steps.h"
#include "support/golden.h"
#include "support/qwen.h"

namespace weir::test {

// Fails every pass from the given one on, as a lost device would.
class FailingSteps : public ForwardingSteps {
 public:
  using ForwardingSteps::ForwardingSteps;
  Status finish() override {
    if (passes_left == 0) return Error{Code::kDevice, "the device is gone", ""};
    --passes_left;
    return ForwardingSteps::finish();
  }
  int passes_left = std::numeric_limits<int>::max();
};

struct Answer {
  Tokens tokens;
  std::string text;
  FinishReason reason = FinishReason::kError;
  GenerationStatistics statistics;
  HeldSequence held;
};

inline Answer finished_answer(Generation& generation) {
  const Status status = generation.run();
  EXPECT_TRUE(status.ok()) << status.error().message;
  Answer answer;
  answer.tokens.assign(generation.answer().begin(), generation.answer().end());
  answer.text = generation.text();
  answer.reason = generation.finish_reason();
  answer.statistics = generation.statistics();
  answer.held = generation.release();
  return answer;
}

class PocketGeneration : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto steps = std::make_unique<FailingSteps>(make_reference_steps());
    steps_ = steps.get();
    model_ = test::load_qwen("models/pocket-qwen", std::move(steps), {});
    auto tokenizer = Tokenizer::load("models/pocket-qwen/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    golden_ = std::make_unique<test::Golden>("tests/data/pocket/qwen-mlx-4bit.safetensors");
  }
  static void TearDownTestSuite() {
    golden_.reset();
    tokenizer_.reset();
    model_.reset();
  }
  void SetUp() override { ASSERT_TRUE(model_ && tokenizer_ && golden_); }
  void TearDown() override { steps_->passes_left = std::numeric_limits<int>::max(); }

  static Tokens prompt(int k) { return golden_->ints("prompt." + std::to_string(k)); }

  // Greedy, until the model ends its answer.
  static GenerationRequest request(int k) {
    GenerationRequest request;
    request.prompt = prompt(k);
    request.sampling.temperature = 0;
    request.end_tokens = {1355, 1357};
    request.max_tokens = 128;
    return request;
  }

  // So hot that tokens are really drawn: the model is sure of most of them.
  static GenerationRequest sampled_request(int k) {
    GenerationRequest sampled = request(k);
    sampled.sampling.temperature = 8;
    sampled.sampling.top_k = 20;
    sampled.sampling.top_p = 0.95f;
    sampled.sampling.seed = 99;
    sampled.max_tokens = 12;
    sampled.end_tokens.clear();
    return sampled;
  }

  static std::unique_ptr<Generation> start(GenerationRequest request, HeldSequence held = {},
                                           GenerationCallbacks callbacks = {}) {
    auto generation = AutoregressiveGeneration::start(*model_, *tokenizer_, std::move(request),
                                                      std::move(callbacks), std::move(held));
    EXPECT_TRUE(generation.ok()) << generation.error().message;
    return generation.ok() ? std::move(*generation) : nullptr;
  }

  static Answer finish(Generation& generation) { return finished_answer(generation); }

  static Answer generate(GenerationRequest request, HeldSequence held = {},
                         GenerationCallbacks callbacks = {}) {
    const auto generation = start(std::move(request), std::move(held), std::move(callbacks));
    return generation ? finish(*generation) : Answer{};
  }

  static inline FailingSteps* steps_ = nullptr;
  static inline std::unique_ptr<qwen::Model> model_;
  static inline std::unique_ptr<Tokenizer> tokenizer_;
  static inline std::unique_ptr<test::Golden> golden_;
};

inline void expect_same_bytes(const Buffer& a, const Buffer& b) {
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0);
}

inline void expect_same_sequence(const HeldSequence& a, const HeldSequence& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.state.position, b.state.position);
  EXPECT_EQ(static_cast<int64_t>(a.tokens.size()), a.state.position);
  ASSERT_EQ(a.state.delta.size(), b.state.delta.size());
  for (size_t i = 0; i < a.state.delta.size(); ++i) {
    expect_same_bytes(a.state.delta[i].recurrent, b.state.delta[i].recurrent);
    expect_same_bytes(a.state.delta[i].conv, b.state.delta[i].conv);
  }
  ASSERT_EQ(a.state.kv.size(), b.state.kv.size());
  for (size_t i = 0; i < a.state.kv.size(); ++i) {
    ASSERT_EQ(a.state.kv[i].pages.size(), b.state.kv[i].pages.size());
    for (size_t p = 0; p < a.state.kv[i].pages.size(); ++p) {
      expect_same_bytes(a.state.kv[i].pages[p], b.state.kv[i].pages[p]);
    }
  }
}

inline void expect_same_answer(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.reason, b.reason);
  expect_same_sequence(a.held, b.held);
}

inline Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

}  // namespace weir::test
