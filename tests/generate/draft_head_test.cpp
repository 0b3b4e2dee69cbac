// Drafting with a multi-token prediction head: the answer is the one without it, bit for bit.
#include "support/draft_head.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "generate/autoregressive.h"
#include "generate/pocket_generation.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/observe/forwarding_steps.h"

namespace weir::test {
namespace {

// Keeps the guesses that passes of one sequence checked, by the length of the text before them.
class DraftRecorder final : public ForwardingSteps {
 public:
  using ForwardingSteps::ForwardingSteps;
  void begin(const Batch& batch) override {
    ForwardingSteps::begin(batch);
    if (batch.wanted.size() < 2) return;
    const auto drafts = batch.tokens.last(batch.wanted.size() - 1);
    const auto end = static_cast<size_t>(batch.segments.front().state->position) + batch.tokens.size();
    checked[end - drafts.size()] = {drafts.begin(), drafts.end()};
  }
  std::map<size_t, Tokens> checked;
};

class HeadDrafted : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = std::make_unique<ThreadPool>(2);
    auto steps = make_cpu_steps(*pool_, cpu_features().best_isa());
    ASSERT_TRUE(steps.ok());
    auto recorder = std::make_unique<DraftRecorder>(std::move(*steps));
    recorder_ = recorder.get();
    model_ = load_tiny_with_head(std::move(recorder), 4);
    auto tokenizer = Tokenizer::load("tests/data/qwen-tiny/hf/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    model_.reset();
    pool_.reset();
  }

  static GenerationRequest request(std::mt19937& random) {
    GenerationRequest request;
    for (size_t i = 0, size = 1 + random() % 100; i < size; ++i) {
      request.prompt.push_back(static_cast<int32_t>(random() % 256));
    }
    request.sampling.temperature = random() % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.top_k = 20;
    request.sampling.seed = random();
    request.max_tokens = static_cast<int64_t>(1 + random() % 40);
    request.chunk = static_cast<int64_t>(1 + random() % 70);
    return request;
  }

  static Answer generate(GenerationRequest request) {
    auto started = AutoregressiveGeneration::start(*model_, *tokenizer_, std::move(request));
    EXPECT_TRUE(started.ok()) << started.error().message;
    static_cast<AutoregressiveGeneration&>(**started).always_draft();
    return finished_answer(**started);
  }

  // Of the head behind the last token of `text`, which has passed through no model yet.
  static Tokens guesses_behind(std::span<const int32_t> text, int64_t most) {
    SequenceState state = new_sequence(*model_);
    auto pairs = model_->new_draft_sequence();
    EXPECT_TRUE(pairs.ok());
    const Segment segment{&state, 0, static_cast<int64_t>(text.size()) - 1};
    const auto fed = text.first(text.size() - 1);
    EXPECT_TRUE(model_->run({.tokens = fed, .segments = {&segment, 1}, .wanted = {}}).ok());
    auto guesses = model_->draft(*pairs, 0, text.subspan(1), std::clamp<int64_t>(most, 0, kHeadDrafts));
    EXPECT_TRUE(guesses.ok());
    return guesses.ok() ? *guesses : Tokens{};
  }

  static inline std::unique_ptr<ThreadPool> pool_;
  static inline DraftRecorder* recorder_ = nullptr;
  static inline std::unique_ptr<qwen::Model> model_;
  static inline std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(HeadDrafted, AnswersAndSequencesAreThoseWithoutDrafts) {
  std::mt19937 random(3);
  int64_t drafted = 0, accepted = 0;
  for (int i = 0; i < 40; ++i) {
    GenerationRequest plain = request(random);
    GenerationRequest with_head = plain;
    with_head.draft = Draft::kHead;
    const Answer expected = generate(plain), found = generate(with_head);
    EXPECT_EQ(expected.tokens, found.tokens) << i;
    EXPECT_EQ(expected.text, found.text) << i;
    EXPECT_EQ(expected.reason, found.reason) << i;
    EXPECT_EQ(expected.statistics.generated_tokens, found.statistics.generated_tokens);
    EXPECT_EQ(static_cast<int64_t>(found.held.tokens.size()), found.held.state.position);
    drafted += found.statistics.drafted_tokens;
    accepted += found.statistics.accepted_tokens;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(drafted - accepted, 100);
}

// Taken one by one from a run of the model over the whole text: wrong guesses, and tokens that are fed again
// after them, leave no trace.
TEST_F(HeadDrafted, GuessesAreThoseOfAHeadThatSawTheTextAtOnce) {
  std::mt19937 random(8);
  size_t compared = 0;
  for (int i = 0; i < 10; ++i) {
    GenerationRequest with_head = request(random);
    with_head.prompt.resize(std::min<size_t>(with_head.prompt.size(), 40));
    with_head.max_tokens = 20;
    with_head.draft = Draft::kHead;
    recorder_->checked.clear();
    const Answer answer = generate(with_head);
    const Tokens text = joined(with_head.prompt, answer.tokens);
    const auto checked = std::exchange(recorder_->checked, {});
    for (const auto& [size, guesses] : checked) {
      EXPECT_EQ(guesses, guesses_behind(std::span(text).first(size), static_cast<int64_t>(guesses.size())))
          << i << ", behind " << size;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST_F(HeadDrafted, AModelWithoutItsHeadRefuses) {
  auto tokenizer = Tokenizer::load("models/pocket-qwen/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  const auto model = load_qwen("models/pocket-qwen", make_reference_steps(), {});
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.draft = Draft::kHead;
  const auto started = AutoregressiveGeneration::start(*model, *tokenizer, request);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::test
