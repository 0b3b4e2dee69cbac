// Whole generations against the official sampler: the same canvases, acceptances and tokens at every step,
// with its draws.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "generate/diffusion.h"
#include "support/diffusion.h"
#include "support/golden.h"

namespace weir::test {
namespace {

// The draws of one canvas of a golden's run.
class RecordedDraws final : public CanvasDraws {
 public:
  RecordedDraws(const Golden& golden, const std::string& canvas)
      : CanvasDraws(0, 0, 1),
        initial_(golden.ids(canvas + ".initial")),
        candidates_(golden.ids(canvas + ".candidates")),
        renoise_(golden.ids(canvas + ".renoise")) {}

  int32_t initial(int64_t position) const override { return initial_[static_cast<size_t>(position)]; }
  int32_t candidate(int64_t step, int64_t position, int32_t) const override {
    return candidates_.at(at(step, position));
  }
  int32_t renoise(int64_t step, int64_t position) const override { return renoise_.at(at(step, position)); }

 private:
  size_t at(int64_t step, int64_t position) const {
    return static_cast<size_t>(step) * initial_.size() + static_cast<size_t>(position);
  }

  Tokens initial_, candidates_, renoise_;
};

template <class T>
std::vector<T> row(const std::vector<T>& all, int64_t step, size_t width) {
  const auto first = all.begin() + step * static_cast<int64_t>(width);
  return {first, first + static_cast<int64_t>(width)};
}

struct RecordedRun {
  std::string name;
  size_t canvases = 0;
  std::vector<int64_t> passes;
  Denoising denoising;
};

std::vector<RecordedRun> runs_of(const Golden& golden) {
  std::vector<RecordedRun> runs;
  const auto described = nlohmann::json::parse(golden.metadata("runs"));
  for (const auto& [name, run] : described.items()) {
    RecordedRun r{name, run["canvases"].get<size_t>(), run["passes"].get<std::vector<int64_t>>(), {}};
    const auto& changes = run["changes"];
    r.denoising.steps = changes.value("max_denoising_steps", r.denoising.steps);
    r.denoising.confidence = changes.value("confidence_threshold", r.denoising.confidence);
    r.denoising.acceptance = EntropyBound{changes.value("entropy_bound", 0.1f)};
    runs.push_back(std::move(r));
  }
  return runs;
}

// What a watcher of the run compares at every step.
class Comparison {
 public:
  Comparison(const Golden& golden, const RecordedRun& run, double entropy_tolerance)
      : golden_(golden), run_(run), tolerance_(entropy_tolerance) {}

  void take(const CanvasFrame& frame) {
    const std::string canvas = run_.name + ".canvas" + std::to_string(frame.canvas) + ".";
    const int64_t step = frame.step - 1;
    const size_t width = frame.tokens.size();
    const std::string where = canvas + " step " + std::to_string(step);
    ASSERT_LT(step, run_.passes.at(static_cast<size_t>(frame.canvas))) << where;
    EXPECT_EQ(Tokens(frame.best.begin(), frame.best.end()), row(golden_.ids(canvas + "argmax"), step, width))
        << where;
    const std::vector<uint8_t> accept(frame.accepted.begin(), frame.accepted.end());
    EXPECT_EQ(accept, row(golden_.flags(canvas + "accept"), step, width)) << where;
    EXPECT_EQ(Tokens(frame.tokens.begin(), frame.tokens.end()),
              row(golden_.ids(canvas + "canvas_out"), step, width))
        << where;
    EXPECT_LE(largest_difference(frame.entropy, row(golden_.floats(canvas + "entropy"), step, width)),
              tolerance_)
        << where;
    ++steps_;
  }

  int64_t steps() const { return steps_; }

 private:
  const Golden& golden_;
  const RecordedRun& run_;
  double tolerance_;
  int64_t steps_ = 0;
};

void replay(diffusion_gemma::Model& model, const Tokenizer& tokenizer, const Golden& golden,
            const RecordedRun& run, const std::vector<int32_t>& end_tokens, double tolerance) {
  SCOPED_TRACE(run.name);
  const Tokens prompt = golden.ids(run.name + ".prompt"), output = golden.ids(run.name + ".output");
  GenerationRequest request;
  request.prompt = prompt;
  request.end_tokens = end_tokens;
  request.max_tokens = static_cast<int64_t>(output.size() - prompt.size());
  request.denoising = run.denoising;
  Comparison comparison(golden, run, tolerance);
  GenerationCallbacks callbacks;
  callbacks.canvas = [&](const CanvasFrame& frame) { comparison.take(frame); };
  auto generation = DiffusionGeneration::start(model, tokenizer, request, callbacks);
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  (*generation)->use_draws([&](int64_t canvas) {
    return std::make_unique<RecordedDraws>(golden, run.name + ".canvas" + std::to_string(canvas));
  });
  const Status status = (*generation)->run();
  ASSERT_TRUE(status.ok()) << status.error().message;

  Tokens found = prompt;
  const auto answer = (*generation)->answer();
  found.insert(found.end(), answer.begin(), answer.end());
  Tokens expected = output;
  const auto end = std::find_first_of(expected.begin() + static_cast<int64_t>(prompt.size()), expected.end(),
                                      end_tokens.begin(), end_tokens.end());
  const bool ended = end != expected.end();
  expected.erase(end, expected.end());
  EXPECT_EQ(found, expected);
  EXPECT_EQ((*generation)->finish_reason(), ended ? FinishReason::kStop : FinishReason::kLength);
  EXPECT_EQ(comparison.steps(), std::accumulate(run.passes.begin(), run.passes.end(), int64_t{0}));
}

// Checks the runs of the golden beside a checkpoint that take at most `most_passes`: the reference steps take
// half a second for a pass of the pocket model.
void replay_all(const std::string& folder, const std::string& golden_path,
                const std::vector<int32_t>& end_tokens, double tolerance, int64_t most_passes) {
  const auto model = load_diffusion(folder, make_reference_steps());
  ASSERT_NE(model, nullptr);
  const auto tokenizer = Tokenizer::load(folder + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  const Golden golden(golden_path);
  const auto runs = runs_of(golden);
  EXPECT_GE(runs.size(), 2u);
  int replayed = 0;
  for (const RecordedRun& run : runs) {
    if (std::accumulate(run.passes.begin(), run.passes.end(), int64_t{0}) > most_passes) continue;
    replay(*model, *tokenizer, golden, run, end_tokens, tolerance);
    ++replayed;
  }
  EXPECT_GE(replayed, 2);
}

class TinyRuns : public testing::TestWithParam<std::string> {};

TEST_P(TinyRuns, replayed_with_the_recorded_draws_agree_at_every_step) {
  const std::string folder = "tests/data/diffusion-tiny/" + GetParam();
  replay_all(folder, folder + "/golden-sampler.safetensors", {1, 106, 50}, 1e-4, 1000);
}

INSTANTIATE_TEST_SUITE_P(Layouts, TinyRuns, testing::Values("hf", "mlx-4bit"),
                         [](const auto& layout) { return layout.param == "hf" ? "hf" : "mlx_4bit"; });

// The candidates of this run came from stored Gumbel noise: the largest of logits / temperature + noise.
TEST(TinyNoise, with_our_logits_gives_the_recorded_candidates) {
  const std::string folder = "tests/data/diffusion-tiny/hf";
  Stages stages;
  const auto model = load_diffusion(folder, make_reference_steps(stages.probe()));
  ASSERT_NE(model, nullptr);
  const Golden golden(folder + "/golden-sampler.safetensors");
  const std::string run = "s12.eos";
  const Tokens inputs = golden.ids(run + ".canvas0.canvas_in"),
               candidates = golden.ids(run + ".canvas0.candidates");
  const std::vector<float> noise = golden.halves(run + ".noise"),
                           temperatures = golden.floats(run + ".canvas0.temperature");
  SequenceState state = taken(model->new_sequence());
  CanvasState canvas = taken(model->new_canvas());
  feed(*model, state, golden.ids(run + ".prompt"));
  const auto vocabulary = static_cast<size_t>(model->config().vocabulary);
  constexpr size_t kCanvas = 32;
  for (size_t step = 0; step < temperatures.size(); ++step) {
    stages.clear();
    denoise(*model, state, canvas, row(inputs, static_cast<int64_t>(step), kCanvas),
            {.temperature = temperatures[step], .conditioned = step > 0});
    const std::vector<float> logits = stages.rows("logits");
    for (size_t t = 0; t < kCanvas; ++t) {
      const float* z = logits.data() + t * vocabulary;
      const float* g = noise.data() + (step * kCanvas + t) * vocabulary;
      size_t best = 0;
      const auto key = [&](size_t v) { return static_cast<double>(z[v]) / temperatures[step] + g[v]; };
      for (size_t v = 1; v < vocabulary; ++v) best = key(v) > key(best) ? v : best;
      EXPECT_EQ(static_cast<int32_t>(best), candidates[step * kCanvas + t]) << "step " << step << ", " << t;
    }
  }
}

TEST(PocketRuns, replayed_with_the_recorded_draws_agree_at_every_step) {
  replay_all("models/pocket-gemma", "tests/data/pocket/gemma-mlx-4bit.safetensors", {1, 16, 9}, 2e-4, 21);
}

TEST(PocketRuns, of_the_unquantised_checkpoint_agree_too) {
  const std::string folder = "../shared/models/pocket-gemma/hf";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  replay_all(folder, folder + "/golden.safetensors", {1, 16, 9}, 2e-4, 21);
}

}  // namespace
}  // namespace weir::test
