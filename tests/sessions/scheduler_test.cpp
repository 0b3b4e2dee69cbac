#include "sessions/scheduler.h"

#include <atomic>
#include <random>
#include <thread>

#include "sessions/pocket_sessions.h"

namespace weir::test {
namespace {

class Scheduling : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (!model_ || model_->kind != GetParam()) model_ = std::make_unique<PocketModel>(GetParam());
    model_->steps->passes_left = std::numeric_limits<int>::max();
    questions_ = pocket_questions();
  }
  std::unique_ptr<Scheduler> scheduler(SchedulerOptions options = {}) {
    return taken(Scheduler::start(*model_->generator, *model_->tokenizer, std::move(options)));
  }
  GenerationRequest request(size_t question, int64_t max_tokens = 24) {
    return model_->request(model_->question(questions_[question], true), question, max_tokens);
  }
  // Goes on until it is cancelled, or for a long time.
  GenerationRequest endless(size_t question) {
    GenerationRequest r = request(question, 2000);
    r.end_tokens.clear();
    return r;
  }

  static inline std::unique_ptr<PocketModel> model_;
  std::vector<std::string> questions_;
};

TEST_P(Scheduling, AnswersThatTakeTurnsAreThoseThatTheyWouldBeAlone) {
  auto scheduler = this->scheduler({.most_running = 3});
  auto& segments = model_->steps->segments_of_passes;
  segments.clear();
  std::vector<Asked> asked;
  for (size_t q = 0; q < 7; ++q) asked.push_back(ask(*scheduler, request(q)));
  std::vector<Seen> seen;
  for (Asked& a : asked) seen.push_back(a.seen.get());
  scheduler.reset();
  if (GetParam() == Kind::kQwen) {
    EXPECT_GT(std::count(segments.begin(), segments.end(), 3u), 10) << "three share a pass";
  }
  for (size_t q = 0; q < seen.size(); ++q) expect_same(seen[q], answer_cold(*model_, request(q)));
}

TEST_P(Scheduling, AnswersToOnePromptHaveItReadOnce) {
  auto scheduler = this->scheduler({.most_running = 6, .chunk = 128});
  std::promise<void> all_asked;
  JobCallbacks callbacks;
  callbacks.prompt = [&, go = all_asked.get_future().share()](int64_t, int64_t) { go.wait(); };
  const auto first = taken(scheduler->submit(request(0, 1), callbacks));
  GenerationRequest choice = request(1);
  choice.prompt.insert(choice.prompt.begin() + 1, 900, 20);
  std::vector<Asked> asked;
  for (choice.sequence = 0; choice.sequence < 4; ++choice.sequence) asked.push_back(ask(*scheduler, choice));
  asked.back().job->cancel();  // while the others wait for the prompt, or before
  all_asked.set_value();
  EXPECT_EQ(asked.back().seen.get().result.finish, FinishReason::kCancelled);
  const auto size = static_cast<int64_t>(choice.prompt.size());
  std::vector<Seen> seen;
  for (size_t i = 0; i < 3; ++i) {
    seen.push_back(asked[i].seen.get());
    const int64_t reused = seen.back().result.statistics.reused_tokens;
    EXPECT_TRUE(i == 0 ? reused < 64 : reused > size - 64) << reused << " of " << size;
  }
  scheduler.reset();
  for (choice.sequence = 0; choice.sequence < 3; ++choice.sequence) {
    expect_same(seen[choice.sequence], answer_cold(*model_, choice));
  }
}

TEST_P(Scheduling, AFullQueueAndADrainingOneAreBusy) {
  auto scheduler = this->scheduler({.most_waiting = 2, .most_running = 1});
  const Asked running = ask(*scheduler, endless(0));
  while (scheduler->status().running == 0) std::this_thread::yield();
  const Asked first = ask(*scheduler, request(1)), second = ask(*scheduler, request(2));
  const auto refused = scheduler->submit(request(3), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBusy);
  EXPECT_EQ(scheduler->status().waiting, 2);
  scheduler->drain(0);
  const auto late = scheduler->submit(request(3), {});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kBusy);
}

TEST_P(Scheduling, WhatCannotBeFulfilledIsRefusedAtOnce) {
  const auto scheduler = this->scheduler();
  GenerationRequest bad = request(0);
  bad.prompt[2] = -5;
  const auto refused = scheduler->submit(bad, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_P(Scheduling, DrainingLetsAnswersFinishAndCancelsThoseThatDoNot) {
  auto scheduler = this->scheduler({.most_running = 2});
  Asked brief = ask(*scheduler, request(0)), waiting = ask(*scheduler, request(1));
  scheduler->drain(60);
  EXPECT_NE(brief.seen.get().result.finish, FinishReason::kCancelled);
  EXPECT_NE(waiting.seen.get().result.finish, FinishReason::kCancelled);

  scheduler = this->scheduler({.most_running = 1});
  Asked running = ask(*scheduler, endless(0));
  waiting = ask(*scheduler, request(1));
  scheduler->drain(0.05);
  EXPECT_EQ(running.seen.get().result.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.seen.get().result.finish, FinishReason::kCancelled);
}

TEST_P(Scheduling, ACancelledAnswerIsToldOnlyThatItHasFinished) {
  auto scheduler = this->scheduler();
  std::atomic<int> told = 0;
  std::promise<JobResult> finished;
  std::promise<void> started;
  std::atomic<bool> cancelled = false;
  JobCallbacks callbacks;
  callbacks.piece = [&](const Piece&) {
    if (cancelled) {
      ++told;
      return;
    }
    started.set_value();
    while (!cancelled) std::this_thread::yield();  // this call has begun before
  };
  callbacks.finished = [&](const JobResult& result) { finished.set_value(result); };
  const auto job = taken(scheduler->submit(endless(0), callbacks));
  started.get_future().get();
  job->cancel();
  cancelled = true;
  EXPECT_EQ(finished.get_future().get().finish, FinishReason::kCancelled);
  EXPECT_EQ(told, 0);
}

TEST_P(Scheduling, ALongPromptDoesNotHoldUpTheAnswersBesideIt) {
  auto scheduler = this->scheduler({.chunk = 128});
  std::atomic<int64_t> steps = 0;
  std::promise<void> running;
  JobCallbacks callbacks;
  const auto step = [&] {
    if (++steps == 2) running.set_value();
  };
  callbacks.piece = [&](const Piece&) {
    if (GetParam() == Kind::kQwen) step();
  };
  callbacks.canvas = [&](const CanvasFrame&) { step(); };
  const auto job = taken(scheduler->submit(endless(0), callbacks));
  running.get_future().get();

  GenerationRequest reading = request(1, 1);
  reading.prompt.insert(reading.prompt.begin() + 1, 1500, 20);
  int64_t chunks = 0, steps_before = 0, steps_after = 0;
  std::promise<void> read;
  JobCallbacks reader;
  reader.prompt = [&](int64_t done, int64_t all) {
    if (chunks++ == 0) steps_before = steps;
    if (done == all) steps_after = steps;
  };
  reader.finished = [&](const JobResult&) { read.set_value(); };
  taken(scheduler->submit(reading, reader));
  read.get_future().get();
  job->cancel();
  EXPECT_GE(chunks, 1500 / 128);
  EXPECT_GE(steps_after - steps_before, chunks - 2) << "one step of the other answer for each chunk";
}

TEST_P(Scheduling, AFailedPassEndsOnlyWhatItCarried) {
  auto scheduler = this->scheduler({.most_running = 2});
  model_->steps->passes_left = 0;
  Asked struck = ask(*scheduler, request(0));
  const Seen seen = struck.seen.get();
  EXPECT_EQ(seen.result.finish, FinishReason::kError);
  ASSERT_TRUE(seen.result.error.has_value());
  EXPECT_EQ(seen.result.error->message, "the device is gone");
  model_->steps->passes_left = std::numeric_limits<int>::max();
  const Seen next = ask(*scheduler, request(0)).seen.get();
  scheduler.reset();
  expect_same(next, answer_cold(*model_, request(0)));
}

TEST_P(Scheduling, WhoNeedsMoreMemoryThanThereIsFailsAlone) {
  GenerationRequest growing = endless(0);  // into a second page
  growing.prompt.insert(growing.prompt.begin() + 1, 240 - growing.prompt.size(), 20);
  const Seen expected = answer_cold(*model_, request(1, 60));
  auto scheduler = this->scheduler({.most_running = 2});
  std::promise<JobResult> failed;
  std::atomic<int> steps = 0;
  JobCallbacks callbacks;
  callbacks.piece = [&](const Piece&) { ++steps; };
  callbacks.canvas = [&](const CanvasFrame&) { ++steps; };
  callbacks.finished = [&](const JobResult& result) {
    model_->steps->no_memory = false;
    failed.set_value(result);
  };
  Asked small = ask(*scheduler, request(1, 60));
  taken(scheduler->submit(growing, callbacks));
  while (steps < 2) std::this_thread::yield();
  model_->steps->no_memory = true;
  const JobResult result = failed.get_future().get();
  EXPECT_EQ(result.finish, FinishReason::kError);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->code, Code::kOutOfMemory);
  expect_same(small.seen.get(), expected);
}

TEST_P(Scheduling, CancellingAtAnyTimeLeavesTheOthersAlone) {
  std::vector<Seen> expected;
  for (size_t q = 0; q < 3; ++q) expected.push_back(answer_cold(*model_, request(q)));
  auto scheduler = this->scheduler({.most_running = 3, .chunk = 16});
  std::atomic<bool> stop = false;
  std::thread vandal([&] {
    std::mt19937 rng(11);
    while (!stop) {
      auto asked = ask(*scheduler, endless(rng() % 3));
      std::this_thread::sleep_for(std::chrono::microseconds(rng() % 20000));
      asked.job->cancel();
      if (rng() % 2 == 0) {
        EXPECT_EQ(asked.seen.get().result.finish, FinishReason::kCancelled);
      }
    }
  });
  for (int round = 0; round < 2; ++round) {
    for (size_t q = 0; q < 3; ++q) expect_same(ask(*scheduler, request(q)).seen.get(), expected[q]);
  }
  stop = true;
  vandal.join();
}

INSTANTIATE_TEST_SUITE_P(pocket, Scheduling, testing::Values(Kind::kQwen, Kind::kGemma),
                         [](const auto& kind) { return kind_name(kind.param); });

}  // namespace
}  // namespace weir::test
