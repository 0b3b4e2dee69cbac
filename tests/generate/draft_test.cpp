// Drafting: guesses, whether they pay, and that an answer is the same with and without them.
#include "generate/draft.h"

#include <gtest/gtest.h>

#include <random>

#include "generate/autoregressive.h"
#include "generate/pocket_generation.h"
#include "grammar/schema.h"
#include "grammar/token_matcher.h"
#include "kernels/cpu/cpu_steps.h"
#include "support/golden.h"
#include "support/qwen.h"

namespace weir::test {
namespace {

TEST(LookupDraft, GivesWhatFollowedTheLatestOccurrence) {
  EXPECT_EQ(lookup_draft(Tokens{1, 2, 3, 7, 1, 2, 3, 8, 9, 1, 2, 3}, 4), (Tokens{8, 9, 1, 2}));
  EXPECT_EQ(lookup_draft(Tokens{1, 2, 3, 8, 9, 1, 2, 3}, 1), (Tokens{8}));
  EXPECT_EQ(lookup_draft(Tokens{5, 2, 3, 8, 9, 1, 2, 3}, 2),
            (Tokens{8, 9}));  // two tokens, where three are new
  EXPECT_EQ(lookup_draft(Tokens{4, 4, 4, 4}, 3), (Tokens{4}));
}

TEST(LookupDraft, GivesNothingWhereThereIsNothing) {
  for (const Tokens& tokens :
       {Tokens{}, Tokens{1}, Tokens{1, 2}, Tokens{1, 2, 3, 4, 5}, Tokens{1, 2, 3, 3, 2}}) {
    EXPECT_TRUE(lookup_draft(tokens, 4).empty());
  }
  EXPECT_TRUE(lookup_draft(Tokens{1, 2, 3, 1, 2, 3}, 0).empty());
  EXPECT_TRUE(lookup_draft(Tokens{1, 2, 3, 1, 2, 3}, -1).empty());
}

// Passes until the gauge changes its mind.
int passes_until(DraftGauge& gauge, bool pays, bool drafted, double seconds, int64_t tokens) {
  int passes = 0;
  for (; gauge.pays() != pays && passes < 5000; ++passes) gauge.add(drafted, seconds, tokens);
  return passes;
}

TEST(DraftGauge, ComparesFirstAndDraftsWhileItPays) {
  DraftGauge gauge;
  EXPECT_FALSE(gauge.pays());
  EXPECT_EQ(passes_until(gauge, true, false, 1.0, 1), 8);
  for (int i = 0; i < 1000; ++i) gauge.add(true, 1.5, 2);
  EXPECT_TRUE(gauge.pays());
}

TEST(DraftGauge, PausesLongerAndLongerWhereDraftsAreTooDear) {
  DraftGauge gauge;
  passes_until(gauge, true, false, 1.0, 1);
  for (const int pause : {32, 64, 128, 256, 512, 1024, 1024}) {
    EXPECT_EQ(passes_until(gauge, false, true, 1.5, 1), 8);
    EXPECT_EQ(passes_until(gauge, true, false, 1.0, 1), pause);
  }
}

TEST(DraftGauge, GivesUpWhenDraftsStopPaying) {
  DraftGauge gauge;
  passes_until(gauge, true, false, 1.0, 1);
  for (int i = 0; i < 50; ++i) gauge.add(true, 1.5, 3);
  EXPECT_LT(passes_until(gauge, false, true, 1.5, 1), 100);
}

class Drafted : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = std::make_unique<ThreadPool>(2);
    auto steps = make_cpu_steps(*pool_, cpu_features().best_isa());
    ASSERT_TRUE(steps.ok());
    model_ = load_qwen("models/pocket-qwen", std::move(*steps), {});
    auto tokenizer = Tokenizer::load("models/pocket-qwen/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    golden_ = std::make_unique<Golden>("tests/data/pocket/qwen-mlx-4bit.safetensors");
  }
  static void TearDownTestSuite() {
    golden_.reset();
    tokenizer_.reset();
    model_.reset();
    pool_.reset();
  }

  struct Answer : test::Answer {
    std::vector<std::pair<int32_t, float>> logprobs;

    bool operator==(const Answer& other) const {
      return tokens == other.tokens && text == other.text && reason == other.reason &&
             logprobs == other.logprobs;
    }
  };

  static GenerationRequest request(int k, float temperature) {
    GenerationRequest request;
    request.prompt = golden_->ints("prompt." + std::to_string(k));
    request.sampling.temperature = temperature;
    request.sampling.top_k = 20;
    request.sampling.seed = 7;
    request.end_tokens = {1355, 1357};
    request.max_tokens = 48;
    return request;
  }

  using MakeDraft = AutoregressiveGeneration::MakeDraft;

  static std::unique_ptr<AutoregressiveGeneration> start(GenerationRequest request, MakeDraft draft,
                                                         HeldSequence held,
                                                         GenerationCallbacks callbacks = {}) {
    auto started = AutoregressiveGeneration::start(*model_, *tokenizer_, std::move(request),
                                                   std::move(callbacks), std::move(held));
    EXPECT_TRUE(started.ok()) << started.error().message;
    std::unique_ptr<AutoregressiveGeneration> generation(
        static_cast<AutoregressiveGeneration*>(started->release()));
    if (draft) generation->use_draft(std::move(draft));
    return generation;
  }

  static Answer finish(AutoregressiveGeneration& generation) { return {finished_answer(generation), {}}; }

  static Answer generate(GenerationRequest request, MakeDraft draft = {}, HeldSequence held = {}) {
    std::vector<std::pair<int32_t, float>> logprobs;
    GenerationCallbacks callbacks;
    callbacks.piece = [&](const Piece& piece) {
      if (piece.logprobs != nullptr)
        logprobs.emplace_back(piece.logprobs->chosen.token, piece.logprobs->chosen.logprob);
    };
    Answer answer =
        finish(*start(std::move(request), std::move(draft), std::move(held), std::move(callbacks)));
    answer.logprobs = std::move(logprobs);
    return answer;
  }

  // Guesses from the answer itself, each wrong with probability `wrong`, of random length.
  static MakeDraft oracle(Tokens whole, double wrong, uint32_t seed) {
    return [whole = std::move(whole), wrong, random = std::mt19937(seed)](std::span<const int32_t> tokens,
                                                                          int64_t most) mutable {
      Tokens guesses;
      const auto count = static_cast<int64_t>(random() % 5);
      for (int64_t i = 0; i < std::min(count, most); ++i) {
        const size_t at = tokens.size() + static_cast<size_t>(i);
        const bool right = at < whole.size() && std::uniform_real_distribution<>(0, 1)(random) >= wrong;
        guesses.push_back(right ? whole[at] : static_cast<int32_t>(random() % 1355));
      }
      return guesses;
    };
  }

  static Tokens whole(const GenerationRequest& request, const Answer& answer) {
    Tokens tokens = request.prompt;
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    return tokens;
  }

  static inline std::unique_ptr<ThreadPool> pool_;
  static inline std::unique_ptr<qwen::Model> model_;
  static inline std::unique_ptr<Tokenizer> tokenizer_;
  static inline std::unique_ptr<Golden> golden_;
};

TEST_F(Drafted, AnswersAreThoseWithoutDraftsHoweverGoodTheGuesses) {
  int64_t drafted = 0, accepted = 0;
  for (int k = 0; k < 6; ++k) {
    for (const float temperature : {0.0f, 1.0f, 8.0f}) {
      const GenerationRequest plain = request(k, temperature);
      const Answer expected = generate(plain);
      for (const double wrong : {0.0, 0.3, 1.0}) {
        const Answer found =
            generate(plain, oracle(whole(plain, expected), wrong, static_cast<uint32_t>(k) + 1));
        EXPECT_TRUE(found == expected) << k << ", " << temperature << ", " << wrong;
        EXPECT_EQ(found.statistics.generated_tokens, expected.statistics.generated_tokens);
        drafted += found.statistics.drafted_tokens;
        accepted += found.statistics.accepted_tokens;
      }
    }
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(drafted - accepted, 300);
}

TEST_F(Drafted, PenaltiesStopsLimitsAndLogprobsCountAcceptedTokensOneByOne) {
  std::vector<GenerationRequest> requests(5, request(1, 1.0f));
  requests[0].sampling.repetition_penalty = 1.3f;
  requests[0].sampling.frequency_penalty = 0.5f;
  requests[1].max_tokens = 11;
  requests[2].context = static_cast<int64_t>(requests[2].prompt.size()) + 13;
  requests[3].top_logprobs = 2;
  requests[4].stop_strings = {"= "};
  for (const GenerationRequest& plain : requests) {
    const Answer expected = generate(plain);
    for (uint32_t seed = 1; seed < 6; ++seed) {
      EXPECT_TRUE(generate(plain, oracle(whole(plain, expected), 0.2, seed)) == expected);
    }
  }
}

TEST_F(Drafted, AGrammarAndALimitOnThinkingHoldAnswersToTheSameWithDrafts) {
  const auto schema = grammar::Json::parse(R"({"type": "object", "required": ["steps", "sum"], "properties": {
      "steps": {"type": "array", "items": {"enum": ["add", "take away", "double"]}, "minItems": 2, "maxItems": 5},
      "sum": {"type": "integer", "minimum": 10, "maximum": 5000}}})");
  auto grammar = grammar::schema_grammar(schema, "schema");
  ASSERT_TRUE(grammar.ok());
  const auto vocabulary = std::make_shared<const grammar::TokenTrie>(*tokenizer_);
  const auto held_to = *grammar::TokenGrammar::make(std::move(*grammar), vocabulary);
  const Tokens end = *tokenizer_->encode("\nEnough.\n</think>\n\n", AddedTokens::kRecognise);
  int64_t accepted = 0, complete = 0;
  for (int k = 0; k < 3; ++k) {
    for (const float temperature : {0.0f, 8.0f}) {
      GenerationRequest formed = request(k, temperature), limited = formed;
      formed.grammar = held_to;
      limited.thinking = ThinkingLimit{5, "</think>", end};
      for (const GenerationRequest& plain : {formed, limited}) {
        const Answer expected = generate(plain);
        if (plain.grammar && expected.reason == FinishReason::kStop) {
          ++complete;
          const auto written = grammar::Json::parse(expected.text, nullptr, false);
          EXPECT_TRUE(written.is_object() && written.contains("sum")) << expected.text;
        }
        GenerationRequest looked_up = plain;
        looked_up.draft = Draft::kLookup;
        EXPECT_TRUE(generate(looked_up) == expected);
        for (const double wrong : {0.0, 0.3}) {
          const Answer found = generate(plain, oracle(whole(plain, expected), wrong, 3));
          EXPECT_TRUE(found == expected) << k << ", " << temperature << ", " << found.text;
          accepted += found.statistics.accepted_tokens;
        }
      }
    }
  }
  EXPECT_GT(accepted, 150);
  EXPECT_GT(complete, 2);
}

TEST_F(Drafted, ASequenceGoesOnAsIfItHadNeverGuessed) {
  const GenerationRequest plain = request(0, 0);
  const Answer expected = generate(plain);
  for (uint32_t seed = 1; seed < 6; ++seed) {
    Answer drafted = generate(plain, oracle(whole(plain, expected), 0.5, seed));
    EXPECT_EQ(static_cast<int64_t>(drafted.held.tokens.size()), drafted.held.state.position);
    GenerationRequest next = request(2, 1.0f);
    next.prompt.insert(next.prompt.begin(), drafted.held.tokens.begin(), drafted.held.tokens.end());
    const Answer cold = generate(next), warm = generate(next, {}, std::move(drafted.held));
    EXPECT_GT(warm.statistics.reused_tokens, 0);
    EXPECT_TRUE(warm == cold);
  }
}

TEST_F(Drafted, AnswersThatShareAPassDraftApart) {
  std::vector<Answer> alone;
  std::vector<std::unique_ptr<AutoregressiveGeneration>> together;
  std::vector<AutoregressiveGeneration*> stepped;
  for (const int k : {0, 1, 2, 3}) {
    const GenerationRequest plain = request(k, 1.0f);
    alone.push_back(generate(plain));
    together.push_back(start(plain, oracle(whole(plain, alone.back()), 0.2, 9), {}));
    stepped.push_back(together.back().get());
  }
  const auto running = [](const auto& g) { return !g->finished(); };
  while (std::any_of(together.begin(), together.end(), running))
    ASSERT_TRUE(step_together(*model_, stepped).ok());
  for (size_t i = 0; i < together.size(); ++i) EXPECT_TRUE(finish(*together[i]) == alone[i]);
}

TEST_F(Drafted, LookingUpFindsWhatAnAnswerRepeats) {
  GenerationRequest plain = request(0, 0);
  plain.end_tokens.clear();  // and so it goes round in circles
  plain.max_tokens = 200;
  const Answer expected = generate(plain);
  const Answer found = generate(plain, lookup_draft);
  EXPECT_TRUE(found == expected);
  EXPECT_GT(found.statistics.accepted_tokens, 20);
  plain.draft = Draft::kLookup;
  EXPECT_TRUE(generate(plain) == expected);
}

}  // namespace
}  // namespace weir::test
