// Block diffusion with the pocket model: what must not change an answer does not, down to the last token.
#include "generate/diffusion.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_steps.h"
#include "support/diffusion.h"

namespace weir::test {
namespace {

const std::string kPocket = "models/pocket-gemma";

struct Outcome {
  Tokens tokens;
  std::string text;
  FinishReason finish = FinishReason::kError;
  int64_t passes = 0, reused = 0;
  HeldSequence held;

  bool operator==(const Outcome& other) const {
    return tokens == other.tokens && text == other.text && finish == other.finish && passes == other.passes;
  }
};
void PrintTo(const Outcome& o, std::ostream* out) {
  *out << o.passes << " passes, " << finish_reason_name(o.finish) << ": " << o.text;
}

Outcome outcome_of(DiffusionGeneration& g) {
  const auto answer = g.answer();
  Outcome o{{answer.begin(), answer.end()}, g.text(), g.finish_reason(), g.statistics().denoising_passes,
            g.statistics().reused_tokens,   {}};
  o.held = g.release();
  return o;
}

class PocketDiffusion : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = std::make_unique<ThreadPool>(2);
    model_ = load_diffusion(kPocket, taken(make_cpu_steps(*pool_, cpu_features().best_isa())), 1024);
    tokenizer_ = std::make_unique<Tokenizer>(taken(Tokenizer::load(kPocket + "/tokenizer.json")));
    std::ifstream file("tests/data/pocket/held_out.jsonl");
    for (std::string line; std::getline(file, line);) {
      questions_.push_back(nlohmann::json::parse(line)["question"].get<std::string>());
    }
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    model_.reset();
    pool_.reset();
  }

  static Tokens encode(const std::string& prompt) {
    return taken(tokenizer_->encode(prompt, AddedTokens::kRecognise));
  }
  static Tokens prompt(size_t question) {
    return encode("<bos><|turn>user\n" + questions_.at(question) +
                  "<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
  }

  static GenerationRequest request(size_t question, uint64_t seed = 0) {
    GenerationRequest r;
    r.prompt = prompt(question);
    r.end_tokens = {1, 9, 16};
    r.sampling.seed = seed;
    r.sequence = static_cast<uint32_t>(question);
    r.max_tokens = 192;
    return r;
  }

  static std::unique_ptr<DiffusionGeneration> start(GenerationRequest r, HeldSequence held = {},
                                                    GenerationCallbacks callbacks = {}) {
    return taken(DiffusionGeneration::start(*model_, *tokenizer_, std::move(r), std::move(callbacks),
                                            std::move(held)));
  }

  static Outcome run(GenerationRequest r, HeldSequence held = {}) {
    const auto generation = start(std::move(r), std::move(held));
    const Status status = generation->run();
    EXPECT_TRUE(status.ok()) << status.error().message;
    return outcome_of(*generation);
  }

  // A question whose answer takes more than one canvas.
  static size_t long_question() {
    for (size_t q = 0; q < questions_.size(); ++q) {
      if (run(request(q)).tokens.size() > 64) return q;
    }
    ADD_FAILURE() << "no long answer";
    return 0;
  }

  static std::unique_ptr<ThreadPool> pool_;
  static std::unique_ptr<diffusion_gemma::Model> model_;
  static std::unique_ptr<Tokenizer> tokenizer_;
  static std::vector<std::string> questions_;
};

std::unique_ptr<ThreadPool> PocketDiffusion::pool_;
std::unique_ptr<diffusion_gemma::Model> PocketDiffusion::model_;
std::unique_ptr<Tokenizer> PocketDiffusion::tokenizer_;
std::vector<std::string> PocketDiffusion::questions_;

TEST_F(PocketDiffusion, a_seed_repeats_an_answer_and_another_one_gives_another) {
  const Outcome first = run(request(3, 5));
  EXPECT_EQ(run(request(3, 5)), first);
  EXPECT_EQ(first.finish, FinishReason::kStop);
  int different = 0;
  for (uint64_t seed = 6; seed < 10; ++seed) different += run(request(3, seed)) == first ? 0 : 1;
  EXPECT_GT(different, 0);
}

TEST_F(PocketDiffusion, commit_and_first_step_in_one_pass_change_nothing) {
  const size_t question = long_question();
  const Outcome together = run(request(question));
  ASSERT_GT(together.tokens.size(), 64u);
  GenerationRequest apart = request(question);
  apart.chunk = 1;  // a pass then has no room for committed tokens beside the canvas
  EXPECT_EQ(run(apart), together);
  apart.chunk = 50;
  EXPECT_EQ(run(apart), together);
}

TEST_F(PocketDiffusion, answers_do_not_depend_on_what_is_denoised_beside_them) {
  std::vector<Outcome> alone;
  for (size_t q = 0; q < 6; ++q) alone.push_back(run(request(q)));
  std::vector<std::unique_ptr<DiffusionGeneration>> generations;
  std::vector<DiffusionGeneration*> all;
  for (size_t q = 0; q < 6; ++q) {
    generations.push_back(start(request(q)));
    all.push_back(generations.back().get());
  }
  while (!std::all_of(all.begin(), all.end(), [](const auto* g) { return g->finished(); })) {
    ASSERT_TRUE(step_together(*model_, all).ok());
  }
  for (size_t q = 0; q < 6; ++q) EXPECT_EQ(outcome_of(*all[q]), alone[q]) << "question " << q;
}

TEST_F(PocketDiffusion, a_reused_prefix_gives_the_same_answer_as_a_cold_start) {
  Outcome first = run(request(0));
  GenerationRequest second = request(0, 3);
  const Tokens reply(first.tokens);
  second.prompt.insert(second.prompt.end(), reply.begin(), reply.end());
  const Tokens next = encode("<turn|>\n<|turn>user\n" + questions_[1] + "<turn|>\n<|turn>model\n");
  second.prompt.insert(second.prompt.end(), next.begin(), next.end());
  const Outcome cold = run(second);
  EXPECT_EQ(cold.reused, 0);
  const Outcome warm = run(second, std::move(first.held));
  EXPECT_EQ(warm, cold);
  EXPECT_GE(warm.reused, static_cast<int64_t>(prompt(0).size()));

  // A prompt that parts from the held tokens early on keeps what is before.
  Outcome third = run(request(0));
  GenerationRequest other = request(2);
  const Outcome other_cold = run(other);
  const Outcome other_warm = run(other, std::move(third.held));
  EXPECT_EQ(other_warm, other_cold);
  EXPECT_GT(other_warm.reused, 0);
}

TEST_F(PocketDiffusion, a_cancelled_generation_leaves_a_usable_sequence) {
  const Outcome whole = run(request(4));
  for (int steps = 0; steps < 12; steps += 3) {
    std::atomic<bool> cancel = false;
    GenerationCallbacks callbacks;
    callbacks.cancel = &cancel;
    const auto generation = start(request(4), {}, callbacks);
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(generation->step().ok());
    cancel = true;
    const auto done = generation->step();
    ASSERT_TRUE(done.ok() && *done);
    EXPECT_EQ(generation->finish_reason(), FinishReason::kCancelled);
    HeldSequence held = generation->release();
    EXPECT_EQ(held.state.position, static_cast<int64_t>(held.tokens.size()));
    EXPECT_EQ(run(request(4), std::move(held)), whole);
  }
}

TEST_F(PocketDiffusion, limits_and_stop_strings_end_the_answer_where_they_say) {
  const Outcome whole = run(request(5));
  GenerationRequest limited = request(5);
  limited.max_tokens = 7;
  const Outcome cut = run(limited);
  EXPECT_EQ(cut.tokens, first_tokens(whole.tokens, 7));
  EXPECT_EQ(cut.finish, FinishReason::kLength);

  GenerationRequest stopped = request(5);
  const std::string stop = whole.text.substr(whole.text.size() / 2, 3);
  stopped.stop_strings = {stop};
  const Outcome before = run(stopped);
  EXPECT_EQ(before.finish, FinishReason::kStopString);
  EXPECT_EQ(before.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST_F(PocketDiffusion, a_checked_answer_is_one_that_the_causal_model_agrees_with) {
  for (size_t q = 0; q < 6; ++q) {
    GenerationRequest r = request(q);
    r.denoising.emplace();
    r.denoising->acceptance = EntropyBound{4.0f};
    r.denoising->causal_check = CausalCheck{0.5f};
    const Outcome checked = run(r);
    EXPECT_EQ(checked.held.state.position, static_cast<int64_t>(checked.held.tokens.size()));
    Tokens all = r.prompt;
    all.insert(all.end(), checked.tokens.begin(), checked.tokens.end());
    SequenceState state = taken(model_->new_sequence());
    const auto beliefs = feed(*model_, state, all, checked.tokens.size() + 1);
    for (size_t i = 0; i < checked.tokens.size(); ++i) {
      const bool agrees = beliefs[i].best == checked.tokens[i] || beliefs[i].best_probability < 0.5f;
      EXPECT_TRUE(agrees) << "question " << q << ", token " << i;
    }
  }
}

TEST_F(PocketDiffusion, requests_that_a_canvas_cannot_fulfil_are_refused) {
  const auto refused = [&](auto change, Code code = Code::kInvalidArgument) {
    GenerationRequest r = request(0);
    change(r);
    const auto generation = DiffusionGeneration::start(*model_, *tokenizer_, r);
    ASSERT_FALSE(generation.ok());
    EXPECT_EQ(generation.error().code, code);
  };
  refused([](GenerationRequest& r) { r.top_logprobs = 1; });
  refused([](GenerationRequest& r) { r.sampling.top_k = 5; });
  refused([](GenerationRequest& r) { r.sampling.presence_penalty = 1; });
  refused([](GenerationRequest& r) { r.sampling.logit_bias = {{3, 1.0f}}; });
  refused([](GenerationRequest& r) { r.prompt.resize(4096 - 63, 20); }, Code::kTooLong);
  refused([](GenerationRequest& r) { r.prompt.clear(); });
  refused([](GenerationRequest& r) { r.prompt[0] = 1024; });
  refused([](GenerationRequest& r) {
    r.denoising.emplace();
    r.denoising->steps = 0;
  });
}

}  // namespace
}  // namespace weir::test
