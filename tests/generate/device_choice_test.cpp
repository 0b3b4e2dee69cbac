// Generation on a backend that chooses tokens itself: passes are queued before the host has seen their token.
// The backend here is the reference, with a chooser made of the host's sampler.
#include <gtest/gtest.h>

#include <deque>

#include "generate/pocket_generation.h"

namespace weir::test {
namespace {

class HostChooser final : public TokenChooser {
 public:
  HostChooser(const ChoiceRules& rules, std::span<const int32_t> prompt)
      : sampler_(sampling_of(rules), rules.vocabulary),
        sequence_(rules.sequence),
        step_(static_cast<uint32_t>(prompt.size())) {
    sampler_.add_prompt(prompt);
  }

  void choose(Rows logits) override {
    Draw draw;
    draw.sequence = sequence_;
    draw.step = step_++;
    const auto row = std::span(logits.floats(), static_cast<size_t>(sampler_.vocabulary()));
    auto sampled = sampler_.sample(row, draw);
    latest = sampled.ok() ? sampled->token : 0;
    sampler_.add_generated(latest);
    waiting_.push_back(latest);
    most_waiting = std::max(most_waiting, waiting_.size());
  }
  Result<int32_t> take() override {
    const int32_t token = waiting_.front();
    waiting_.pop_front();
    return token;
  }

  int32_t latest = 0;
  static inline size_t most_waiting = 0;

 private:
  static Sampling sampling_of(const ChoiceRules& rules) {
    Sampling s;
    s.temperature = rules.temperature;
    s.top_k = static_cast<int>(rules.top_k);
    s.top_p = rules.top_p;
    s.min_p = rules.min_p;
    s.presence_penalty = rules.presence_penalty;
    s.frequency_penalty = rules.frequency_penalty;
    s.repetition_penalty = rules.repetition_penalty;
    s.logit_bias.assign(rules.logit_bias.begin(), rules.logit_bias.end());
    s.seed = rules.seed;
    return s;
  }

  Sampler sampler_;
  uint32_t sequence_;
  uint32_t step_;
  std::deque<int32_t> waiting_;
};

class ChoosingSteps final : public ForwardingSteps {
 public:
  using ForwardingSteps::ForwardingSteps;

  Result<std::unique_ptr<TokenChooser>> make_chooser(const ChoiceRules& rules,
                                                     std::span<const int32_t> prompt) override {
    return std::unique_ptr<TokenChooser>(std::make_unique<HostChooser>(rules, prompt));
  }
  void begin(const Batch& batch) override {
    if (batch.chosen != nullptr) token_ = static_cast<const HostChooser*>(batch.chosen)->latest;
    ForwardingSteps::begin(with_token(batch));
  }
  void embed(Rows x, const Batch& batch, const Embedding& embedding) override {
    ForwardingSteps::embed(x, with_token(batch), embedding);
  }

 private:
  Batch with_token(Batch batch) const {
    if (batch.chosen != nullptr) batch.tokens = {&token_, 1};
    return batch;
  }

  int32_t token_ = 0;
};

class DeviceChoice : public PocketGeneration {
 protected:
  static void SetUpTestSuite() {
    PocketGeneration::SetUpTestSuite();
    choosing_ =
        test::load_qwen("models/pocket-qwen", std::make_unique<ChoosingSteps>(make_reference_steps()), {});
  }
  static void TearDownTestSuite() {
    choosing_.reset();
    PocketGeneration::TearDownTestSuite();
  }

  static Answer generate_there(GenerationRequest request, HeldSequence held = {}) {
    auto generation =
        AutoregressiveGeneration::start(*choosing_, *tokenizer_, std::move(request), {}, std::move(held));
    EXPECT_TRUE(generation.ok());
    return generation.ok() ? finish(**generation) : Answer{};
  }

  static inline std::unique_ptr<qwen::Model> choosing_;
};

TEST_F(DeviceChoice, AnswersEqualThoseOfTheHostsSampler) {
  HostChooser::most_waiting = 0;
  for (GenerationRequest request : {request(0), sampled_request(1), sampled_request(3)}) {
    request.sampling.frequency_penalty = 0.5f;
    request.chunk = 16;
    const Answer here = generate(request), there = generate_there(request);
    EXPECT_EQ(there.tokens, here.tokens);
    EXPECT_EQ(there.text, here.text);
    EXPECT_EQ(there.reason, here.reason);
    EXPECT_EQ(there.statistics.generated_tokens, here.statistics.generated_tokens);
  }
  EXPECT_EQ(HostChooser::most_waiting, 2u) << "a pass was to be queued before its token was taken";
}

TEST_F(DeviceChoice, TheSequenceHoldsWhatHasPassedThroughAlsoTheTokenThatEndedTheAnswer) {
  const Answer answer = generate_there(request(0));
  ASSERT_EQ(answer.reason, FinishReason::kStop);
  Tokens all = joined(prompt(0), golden_->ints("greedy.0"));
  EXPECT_EQ(answer.held.tokens, all);
  EXPECT_EQ(answer.held.state.position, static_cast<int64_t>(all.size()));
}

TEST_F(DeviceChoice, AnAnswerCutOffByItsLengthContinuesAsIfItHadNotBeen) {
  GenerationRequest whole = sampled_request(1);
  const Answer expected = generate(whole);
  GenerationRequest part = whole;
  part.max_tokens = 5;
  Answer first = generate_there(part);
  ASSERT_EQ(first.reason, FinishReason::kLength);
  GenerationRequest rest = whole;
  rest.prompt = joined(whole.prompt, first.tokens);
  rest.max_tokens -= 5;
  const int64_t held = first.held.state.position;
  const Answer second = generate_there(rest, std::move(first.held));
  EXPECT_EQ(second.statistics.reused_tokens, held);
  EXPECT_EQ(joined(first.tokens, second.tokens), expected.tokens);
}

TEST_F(DeviceChoice, LogprobsAreMadeOnTheHost) {
  GenerationRequest request = sampled_request(5);
  request.top_logprobs = 2;
  EXPECT_EQ(generate_there(request).tokens, generate(request).tokens);
}

}  // namespace
}  // namespace weir::test
