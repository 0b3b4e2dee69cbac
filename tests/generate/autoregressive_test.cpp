#include "generate/autoregressive.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "generate/pocket_generation.h"

namespace weir::test {
namespace {

using Autoregressive = PocketGeneration;

TEST_F(Autoregressive, GreedyAnswersEqualTheReferenceImplementations) {
  for (const int k : {0, 1}) {
    const Answer answer = generate(request(k));
    Tokens golden = golden_->ints("greedy." + std::to_string(k));
    EXPECT_EQ(answer.statistics.generated_tokens, static_cast<int64_t>(golden.size()));
    golden.pop_back();  // the token that ended it
    EXPECT_EQ(answer.tokens, golden);
    EXPECT_EQ(answer.reason, FinishReason::kStop);
    EXPECT_EQ(answer.text, tokenizer_->decode(golden, SpecialTokens::kSkip));
    EXPECT_EQ(answer.held.tokens, joined(prompt(k), golden));
  }
}

TEST_F(Autoregressive, ChunksOfAnySizeGiveTheSameAnswerAndState) {
  GenerationRequest whole = sampled_request(5);
  whole.chunk = 512;
  const Answer expected = generate(whole);
  ASSERT_EQ(expected.tokens.size(), 12u);
  const Tokens greedy = golden_->ints("greedy.5");
  ASSERT_FALSE(std::equal(expected.tokens.begin(), expected.tokens.end(), greedy.begin()))
      << "nothing was drawn";
  for (const int64_t chunk : {1, 7, 64}) {
    GenerationRequest cut = sampled_request(5);
    cut.chunk = chunk;
    expect_same_answer(generate(cut), expected);
  }
}

TEST_F(Autoregressive, CancellingBeforeEveryStepAndContinuingEqualsNoInterruption) {
  GenerationRequest request = sampled_request(1);
  request.chunk = 10;
  const Answer expected = generate(request);
  ASSERT_EQ(expected.tokens.size(), 12u);
  std::atomic<bool> cancel = false;
  GenerationCallbacks callbacks;
  callbacks.cancel = &cancel;
  HeldSequence held;
  Tokens answer;
  int interruptions = 0;
  for (bool cancelled = true; cancelled; ++interruptions) {
    GenerationRequest rest = request;
    rest.prompt = joined(rest.prompt, answer);
    rest.max_tokens -= static_cast<int64_t>(answer.size());
    const auto generation = start(rest, std::move(held), callbacks);
    ASSERT_TRUE(generation);
    cancel = false;
    ASSERT_TRUE(generation->step().ok());
    cancel = true;
    ASSERT_TRUE(*generation->step());
    cancelled = generation->finish_reason() == FinishReason::kCancelled;
    answer.insert(answer.end(), generation->answer().begin(), generation->answer().end());
    held = generation->release();
  }
  EXPECT_EQ(interruptions, 4 + 12);  // five chunks, the last of which gives a token
  EXPECT_EQ(answer, expected.tokens);
  expect_same_sequence(held, expected.held);
}

TEST_F(Autoregressive, ACancelledStartHoldsNothingAndStaysUsable) {
  const std::atomic<bool> cancel = true;
  GenerationCallbacks callbacks;
  callbacks.cancel = &cancel;
  Answer answer = generate(request(0), {}, callbacks);
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_TRUE(answer.held.tokens.empty());
  expect_same_answer(generate(request(0), std::move(answer.held)), generate(request(0)));
}

TEST_F(Autoregressive, ASequenceThatHoldsTheBeginningOfThePromptIsReused) {
  Answer first = generate(request(0));
  const int64_t held = first.held.state.position;
  GenerationRequest second = sampled_request(0);
  second.prompt = joined(first.held.tokens, joined({1357, 198}, prompt(1)));
  const Answer cold = generate(second);
  const Answer warm = generate(second, std::move(first.held));
  EXPECT_EQ(cold.statistics.reused_tokens, 0);
  EXPECT_EQ(warm.statistics.reused_tokens, held);
  EXPECT_EQ(warm.statistics.prompt_tokens, static_cast<int64_t>(second.prompt.size()));
  expect_same_answer(warm, cold);
}

TEST_F(Autoregressive, ASequenceThatWentAnotherWayOrHoldsEverythingIsFedAgain) {
  const Answer cold = generate(sampled_request(0));
  GenerationRequest one = request(0);
  one.max_tokens = 1;
  Answer exact = generate(one);  // holds exactly the prompt
  ASSERT_EQ(exact.held.tokens, prompt(0));
  Answer longer = generate(request(0));
  Answer other = generate(request(2));
  for (Answer* answer : {&exact, &longer, &other}) {
    const Answer again = generate(sampled_request(0), std::move(answer->held));
    EXPECT_EQ(again.statistics.reused_tokens, 0);
    expect_same_answer(again, cold);
  }
}

TEST_F(Autoregressive, GenerationsThatTakeTurnsDoNotTouchEachOther) {
  const Answer alone_a = generate(sampled_request(1)), alone_b = generate(sampled_request(0));
  const auto a = start(sampled_request(1)), b = start(sampled_request(0));
  while (!a->finished() || !b->finished()) {
    ASSERT_TRUE(a->step().ok());
    ASSERT_TRUE(b->step().ok());
  }
  expect_same_answer(finish(*a), alone_a);
  expect_same_answer(finish(*b), alone_b);
}

TEST_F(Autoregressive, GenerationsThatSharePassesAreThoseThatTheyWouldBeAlone) {
  std::vector<Answer> alone;
  std::vector<std::unique_ptr<Generation>> together;
  std::vector<AutoregressiveGeneration*> stepped;
  for (const int k : {1, 0, 2}) {
    GenerationRequest one = sampled_request(k);
    one.chunk = 30;
    one.max_tokens = 4 + 4 * k;
    alone.push_back(generate(one));
    together.push_back(start(one));
    stepped.push_back(static_cast<AutoregressiveGeneration*>(together.back().get()));
  }
  const auto running = [](const auto& g) { return !g->finished(); };
  while (std::any_of(together.begin(), together.end(), running)) {
    ASSERT_TRUE(step_together(*model_, stepped).ok());
  }
  for (size_t i = 0; i < together.size(); ++i) expect_same_answer(finish(*together[i]), alone[i]);
}

TEST_F(Autoregressive, AFailedPassEndsAllThatSharedIt) {
  const auto a = start(sampled_request(0)), b = start(sampled_request(2));
  std::vector<AutoregressiveGeneration*> both;
  for (const auto& g : {a.get(), b.get()}) both.push_back(static_cast<AutoregressiveGeneration*>(g));
  ASSERT_TRUE(step_together(*model_, both).ok());
  steps_->passes_left = 0;
  EXPECT_FALSE(step_together(*model_, both).ok());
  for (const AutoregressiveGeneration* g : both) {
    ASSERT_TRUE(g->finished());
    ASSERT_TRUE(g->error().has_value());
    EXPECT_EQ(g->error()->code, Code::kDevice);
  }
}

TEST_F(Autoregressive, CheckpointsShowTheSequenceThereAndChangeNothing) {
  const Answer plain = generate(sampled_request(1));  // 44 tokens
  GenerationRequest stopping = sampled_request(1);
  stopping.checkpoints = {7, 30, 43};
  stopping.chunk = 16;
  std::vector<int64_t> positions;
  HeldSequence kept;
  GenerationCallbacks callbacks;
  callbacks.checkpoint = [&](const SequenceState& state) {
    positions.push_back(state.position);
    if (state.position != 30) return;
    kept.state = std::move(*model_->copy(state));
    kept.tokens.assign(stopping.prompt.begin(), stopping.prompt.begin() + 30);
  };
  expect_same_answer(generate(stopping, {}, callbacks), plain);
  EXPECT_EQ(positions, stopping.checkpoints);
  const Answer from_there = generate(sampled_request(1), std::move(kept));
  EXPECT_EQ(from_there.statistics.reused_tokens, 30);
  expect_same_answer(from_there, plain);

  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{0}, {5, 5}, {9, 3}, {45}}) {
    stopping.checkpoints = bad;
    EXPECT_FALSE(AutoregressiveGeneration::start(*model_, *tokenizer_, stopping).ok());
  }
}

TEST_F(Autoregressive, AStopStringEndsTheTextBeforeIt) {
  const Answer whole = generate(request(0));
  const std::string& text = whole.text;
  ASSERT_GT(text.size(), 12u);
  // Over every token border in the middle of the text, whatever the tokens are.
  for (size_t begin = 3; begin + 4 <= text.size(); begin += 5) {
    GenerationRequest stopped = request(0);
    stopped.stop_strings = {text.substr(begin, 4), "never said"};
    std::string streamed;
    GenerationCallbacks callbacks;
    callbacks.piece = [&](const Piece& piece) { streamed += piece.text; };
    const Answer answer = generate(stopped, {}, callbacks);
    EXPECT_EQ(answer.reason, FinishReason::kStopString);
    EXPECT_EQ(answer.text, text.substr(0, text.find(stopped.stop_strings[0])));
    EXPECT_EQ(streamed, answer.text);
    EXPECT_LE(answer.tokens.size(), whole.tokens.size());
  }
}

TEST_F(Autoregressive, TextHeldBackForAStopStringComesOutAtTheEnd) {
  const Answer whole = generate(request(0));
  GenerationRequest held_back = request(0);
  held_back.stop_strings = {whole.text.substr(whole.text.size() - 5) + "..."};
  int without_token = 0;
  GenerationCallbacks callbacks;
  callbacks.piece = [&](const Piece& piece) { without_token += !piece.token; };
  const Answer answer = generate(held_back, {}, callbacks);
  EXPECT_EQ(answer.text, whole.text);
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  EXPECT_EQ(without_token, 1);

  held_back.max_tokens = static_cast<int64_t>(whole.tokens.size());
  without_token = 0;
  const Answer cut = generate(held_back, {}, callbacks);
  EXPECT_EQ(cut.text, whole.text);
  EXPECT_EQ(cut.reason, FinishReason::kLength);
  EXPECT_EQ(without_token, 0);
}

TEST_F(Autoregressive, EndsAtMaxTokensAndAtTheContext) {
  GenerationRequest short_one = request(1);
  short_one.max_tokens = 5;
  const Answer length = generate(short_one);
  EXPECT_EQ(length.reason, FinishReason::kLength);
  EXPECT_EQ(length.tokens.size(), 5u);
  EXPECT_EQ(length.held.state.position, 44 + 4);

  short_one.max_tokens = 0;
  short_one.context = 44 + 5;
  const Answer context = generate(short_one);
  EXPECT_EQ(context.reason, FinishReason::kContext);
  EXPECT_EQ(context.tokens, length.tokens);
}

TEST_F(Autoregressive, RefusesAPromptWithoutRoomAndLeavesTheHeldSequenceAlone) {
  HeldSequence held = generate(request(0)).held;
  const Tokens before = held.tokens;
  GenerationRequest long_one = request(1);
  long_one.context = 44;
  const auto refused = AutoregressiveGeneration::start(*model_, *tokenizer_, long_one, {}, std::move(held));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kTooLong);
  EXPECT_NE(refused.error().message.find("44 tokens"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("room for 44"), std::string::npos) << refused.error().message;
  EXPECT_EQ(held.tokens, before);
  EXPECT_EQ(held.state.position, static_cast<int64_t>(before.size()));
}

TEST_F(Autoregressive, RefusesWhatMakesNoSense) {
  const std::pair<const char*, std::function<void(GenerationRequest&)>> cases[] = {
      {"prompt is empty", [](GenerationRequest& r) { r.prompt.clear(); }},
      {"token -1", [](GenerationRequest& r) { r.prompt[3] = -1; }},
      {"token 1408", [](GenerationRequest& r) { r.prompt.back() = 1408; }},
      {"max_tokens is -1", [](GenerationRequest& r) { r.max_tokens = -1; }},
      {"context is -5", [](GenerationRequest& r) { r.context = -5; }},
      {"context is 32769", [](GenerationRequest& r) { r.context = 32769; }},
      {"chunk is 513", [](GenerationRequest& r) { r.chunk = 513; }},
      {"chunk is -1", [](GenerationRequest& r) { r.chunk = -1; }},
      {"top_logprobs is 21", [](GenerationRequest& r) { r.top_logprobs = 21; }},
      {"stop string is empty",
       [](GenerationRequest& r) {
         r.stop_strings = {"a", ""};
       }},
      {"top_p is 2", [](GenerationRequest& r) { r.sampling.top_p = 2; }},
  };
  for (const auto& [message, change] : cases) {
    GenerationRequest bad = request(0);
    change(bad);
    const auto refused = AutoregressiveGeneration::start(*model_, *tokenizer_, bad);
    ASSERT_FALSE(refused.ok()) << message;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(message), std::string::npos) << refused.error().message;
  }
}

TEST_F(Autoregressive, ReportsProgressPiecesAndLogprobsAsItGoes) {
  std::vector<uint64_t> progress;
  Tokens tokens;
  std::string text;
  float best_total = 0;
  GenerationCallbacks callbacks;
  callbacks.prompt = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 44u);
    progress.push_back(done);
  };
  callbacks.piece = [&](const Piece& piece) {
    text += piece.text;
    if (!piece.token) return;
    tokens.push_back(*piece.token);
    ASSERT_NE(piece.logprobs, nullptr);
    EXPECT_EQ(piece.logprobs->chosen.token, *piece.token);
    ASSERT_EQ(piece.logprobs->top.size(), 2u);
    EXPECT_EQ(piece.logprobs->top[0].token, *piece.token);  // greedy
    EXPECT_GE(piece.logprobs->top[0].logprob, piece.logprobs->top[1].logprob);
    best_total += piece.logprobs->chosen.logprob;
  };
  GenerationRequest watched = request(1);
  watched.chunk = 16;
  watched.top_logprobs = 2;
  const Answer answer = generate(watched, {}, callbacks);
  EXPECT_EQ(progress, (std::vector<uint64_t>{16, 32, 44}));
  EXPECT_EQ(tokens, answer.tokens);
  EXPECT_EQ(text, answer.text);
  EXPECT_LT(best_total, 0);
  EXPECT_GT(best_total, -20);
}

TEST_F(Autoregressive, TheFirstLogprobsAreTheSoftmaxOfTheGoldenLogits) {
  const auto logits = golden_->floats("logits.0");
  const size_t vocabulary = 1408;
  const auto row = std::span(logits).last(vocabulary);
  const double largest = *std::max_element(row.begin(), row.end());
  const double sum = std::accumulate(row.begin(), row.end(), 0.0,
                                     [&](double s, float logit) { return s + std::exp(logit - largest); });
  GenerationRequest first = request(0);
  first.max_tokens = 1;
  first.top_logprobs = 5;
  GenerationCallbacks callbacks;
  callbacks.piece = [&](const Piece& piece) {
    for (const TokenLogprob& top : piece.logprobs->top) {
      EXPECT_NEAR(top.logprob, row[static_cast<size_t>(top.token)] - largest - std::log(sum), 2e-3);
    }
  };
  generate(first, {}, callbacks);
}

TEST_F(Autoregressive, StatisticsCountTokensTimeAndBytes) {
  GenerationRequest counted = request(1);
  counted.max_tokens = 6;
  const Answer answer = generate(counted);
  const GenerationStatistics& statistics = answer.statistics;
  EXPECT_EQ(statistics.prompt_tokens, 44);
  EXPECT_EQ(statistics.reused_tokens, 0);
  EXPECT_EQ(statistics.generated_tokens, 6);
  EXPECT_GT(statistics.prefill_seconds, 0);
  EXPECT_GT(statistics.decode_seconds, 0);
  EXPECT_GE(statistics.first_token_seconds, statistics.prefill_seconds);
  uint64_t bytes = 0;
  for (int64_t position = 44; position < 49; ++position) bytes += model_->bytes_per_token(position);
  EXPECT_EQ(statistics.bytes_moved, bytes);
}

TEST_F(Autoregressive, AFailedStepEndsTheGenerationAndDropsTheSequence) {
  for (const int passes : {0, 1, 4}) {
    GenerationRequest failing = request(1);
    failing.chunk = 20;
    const auto generation = start(failing);
    steps_->passes_left = passes;
    const Status status = generation->run();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDevice);
    EXPECT_TRUE(generation->finished());
    EXPECT_EQ(generation->finish_reason(), FinishReason::kError);
    EXPECT_TRUE(*generation->step());
    const HeldSequence held = generation->release();
    EXPECT_TRUE(held.tokens.empty());
    EXPECT_EQ(held.state.position, 0);
    TearDown();
  }
}

TEST_F(Autoregressive, PenaltiesSeeThePromptAndTheAnswer) {
  GenerationRequest varied = request(0);
  varied.sampling.repetition_penalty = 100;  // nothing is said twice
  varied.max_tokens = 6;
  const Answer answer = generate(varied);
  std::set<int32_t> seen(varied.prompt.begin(), varied.prompt.end());
  for (const int32_t token : answer.tokens) EXPECT_TRUE(seen.insert(token).second) << token;
}

}  // namespace
}  // namespace weir::test
