// What the scheduler reuses, and that nobody can tell by the answers.
#include <random>

#include "sessions/pocket_sessions.h"

namespace weir::test {
namespace {

class Reuse : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (!model_ || model_->kind != GetParam()) model_ = std::make_unique<PocketModel>(GetParam());
    questions_ = pocket_questions();
  }
  std::unique_ptr<Scheduler> scheduler(SchedulerOptions options = {}) {
    return taken(Scheduler::start(*model_->generator, *model_->tokenizer, std::move(options)));
  }

  static inline std::unique_ptr<PocketModel> model_;
  std::vector<std::string> questions_;
};

// The conversation of an agent: short observations, longer answers. What is read again is what each turn
// adds, and the end of the answer before, which need not have passed through the model: one token, or a
// canvas.
TEST_P(Reuse, AnAgentsTwentyTurnsReadAlmostNothingTwice) {
  const auto scheduler = this->scheduler();
  const int64_t unread = GetParam() == Kind::kQwen ? 1 : 64;
  Tokens history;
  int64_t prompt_tokens = 0, reused = 0;
  for (size_t turn = 0; turn < 20; ++turn) {
    const Tokens observation = model_->question("What is " + std::to_string(turn) + " + 2?", turn == 0);
    history = joined(history, observation);
    GenerationRequest request = model_->request(history, turn, 160);
    request.end_tokens.clear();
    const Seen seen = ask(*scheduler, std::move(request)).seen.get();
    ASSERT_EQ(seen.result.finish, FinishReason::kLength);
    const GenerationStatistics& statistics = seen.result.statistics;
    EXPECT_EQ(statistics.prompt_tokens, static_cast<int64_t>(history.size()));
    prompt_tokens += statistics.prompt_tokens;
    reused += statistics.reused_tokens;
    const auto fresh = static_cast<int64_t>(observation.size());
    EXPECT_GE(statistics.reused_tokens, statistics.prompt_tokens - fresh - unread);
    history = joined(history, seen.result.answer);
  }
  std::cout << "reused " << reused << " of " << prompt_tokens << " prompt tokens\n";
  EXPECT_GT(reused, prompt_tokens * 95 / 100);
  EXPECT_EQ(scheduler->status().reused_tokens, reused);
}

// The next prompt shows answers without the thinking before them, so it has only the questions in common with
// what the model has read.
TEST_P(Reuse, AnAnswerThatIsRenderedDifferentlyCostsOnlyItselfAgain) {
  const auto scheduler = this->scheduler();
  Tokens history;
  for (size_t turn = 0; turn < 5; ++turn) {
    const Tokens question = model_->question(questions_[turn], turn == 0);
    const auto read = static_cast<int64_t>(history.size());
    history = joined(history, question);
    const Seen seen = ask(*scheduler, model_->request(history, turn, 40)).seen.get();
    // Six tokens open the answer; what follows the question's opening is new, as is what was thought before.
    if (turn > 0) {
      EXPECT_GE(seen.result.statistics.reused_tokens, read - 20 - 12);
    }
    history = joined(history, model_->encode("4 + 4 = 8. Answer: 8"));
  }
}

// A conversation of which some turns are changed, forgotten or taken up again from another one.
class Conversations {
 public:
  Conversations(const PocketModel& model, const std::vector<std::string>& questions, uint32_t seed)
      : model_(model), questions_(questions), rng_(seed) {}

  // The next request of session `s`.
  GenerationRequest next(size_t s) {
    Turns& turns = sessions_[s];
    switch (below(5)) {
      case 0:  // an earlier turn is edited
        turns.resize(below(turns.size() + 1));
        break;
      case 1:  // the other session's beginning
        turns = sessions_[1 - s];
        turns.resize(below(turns.size() + 1));
        break;
      default:
        break;
    }
    if (tokens(turns).size() > 1200) turns.clear();
    turns.push_back(model_.question(questions_[below(questions_.size())], turns.empty()));
    GenerationRequest request = model_.request(tokens(turns), below(3), 8 + static_cast<int64_t>(below(24)));
    request.chunk = below(3) == 0 ? 1 + static_cast<int64_t>(below(200)) : 0;
    return request;
  }
  void answered(size_t s, const Tokens& answer) {
    Tokens& turn = sessions_[s].back();
    turn = joined(turn, answer);
  }

 private:
  using Turns = std::vector<Tokens>;
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }
  static Tokens tokens(const Turns& turns) {
    Tokens all;
    for (const Tokens& turn : turns) all = joined(all, turn);
    return all;
  }

  const PocketModel& model_;
  const std::vector<std::string>& questions_;
  std::mt19937 rng_;
  Turns sessions_[2];
};

// Two sessions at once, in a cache with room for all and in one that evicts, with restarts from a folder.
TEST_P(Reuse, AnswersEqualAColdStartBitForBit) {
  for (const uint64_t cache_bytes : {uint64_t{1} << 30, uint64_t{12} << 20}) {
    const TemporaryFolder folder;
    SchedulerOptions options{.cache_bytes = cache_bytes, .state_folder = folder.path()};
    options.notice = [](const std::string& notice) { ADD_FAILURE() << notice; };
    std::vector<std::pair<GenerationRequest, Seen>> answers;
    Conversations conversations(*model_, questions_, 3);
    int64_t reused = 0;
    for (int start = 0; start < 3; ++start) {
      const auto scheduler = this->scheduler(options);
      EXPECT_EQ(scheduler->status().cached_prefixes > 0, start > 0);
      for (int round = 0; round < 4; ++round) {
        std::vector<GenerationRequest> requests{conversations.next(0), conversations.next(1)};
        std::vector<Asked> asked;
        for (const GenerationRequest& request : requests) asked.push_back(ask(*scheduler, request));
        for (size_t s = 0; s < 2; ++s) {
          answers.emplace_back(requests[s], asked[s].seen.get());
          conversations.answered(s, answers.back().second.result.answer);
        }
      }
      scheduler->drain(10);
      EXPECT_LE(scheduler->status().cache_bytes, cache_bytes);
      EXPECT_LE(folder.bytes(), cache_bytes);
      reused += scheduler->status().reused_tokens;
    }
    EXPECT_GT(reused, 0);
    for (const auto& [request, seen] : answers) expect_same(seen, answer_cold(*model_, request));
  }
}

// With room for few sequences, each answer evicts those of the other conversation, which is taken up again
// while they are still being written.
TEST_P(Reuse, WhatIsEvictedAndAskedForAtOnceIsTheSameAndIsThereAfterARestart) {
  const TemporaryFolder folder;
  SchedulerOptions options{.cache_bytes = uint64_t{5} << 20, .state_folder = folder.path()};
  options.notice = [](const std::string& notice) { ADD_FAILURE() << notice; };
  std::vector<std::pair<GenerationRequest, Seen>> answers;
  Tokens history[2] = {};
  const auto turn = [&](Scheduler& scheduler, size_t s, size_t number) {
    history[s] = joined(history[s], model_->question(questions_[2 * number + s], history[s].empty()));
    const GenerationRequest request = model_->request(history[s], number, 8);
    answers.emplace_back(request, ask(scheduler, request).seen.get());
    history[s] = joined(history[s], answers.back().second.result.answer);
  };
  for (size_t start = 0; start < 2; ++start) {
    const auto scheduler = this->scheduler(options);
    EXPECT_EQ(scheduler->status().cached_prefixes > 0, start > 0);
    for (size_t number = 3 * start; number < 3 * start + 3; ++number) {
      turn(*scheduler, start, number);  // after the restart, whose state was used last
      turn(*scheduler, 1 - start, number);
    }
    EXPECT_LT(scheduler->status().cached_prefixes, 12);  // of two for each answer
    scheduler->drain(10);
    EXPECT_LE(folder.bytes(), options.cache_bytes);
    EXPECT_TRUE(folder.files(".part").empty());
  }
  EXPECT_GT(answers[6].second.result.statistics.reused_tokens, 0);
  for (const auto& [request, seen] : answers) expect_same(seen, answer_cold(*model_, request));
}

TEST_P(Reuse, AConversationGoesOnAfterARestartWhereItWas) {
  const TemporaryFolder folder;
  const SchedulerOptions options{.state_folder = folder.path(), .model_identity = "pocket"};
  auto scheduler = this->scheduler(options);
  Tokens history = model_->question(questions_[1], true);
  history = joined(history, ask(*scheduler, model_->request(history, 1)).seen.get().result.answer);
  history = joined(history, model_->question(questions_[2], false));
  scheduler->drain(10);
  const SchedulerStatus before = scheduler->status();
  scheduler.reset();
  scheduler = this->scheduler(options);
  EXPECT_EQ(scheduler->status().cached_prefixes, before.cached_prefixes);
  EXPECT_EQ(scheduler->status().cache_bytes, before.cache_bytes);
  const Seen warm = ask(*scheduler, model_->request(history, 2)).seen.get();
  scheduler.reset();
  EXPECT_GT(warm.result.statistics.reused_tokens, 40);
  expect_same(warm, answer_cold(*model_, model_->request(history, 2)));
}

INSTANTIATE_TEST_SUITE_P(pocket, Reuse, testing::Values(Kind::kQwen, Kind::kGemma),
                         [](const auto& kind) { return kind_name(kind.param); });

}  // namespace
}  // namespace weir::test
