// Synthetic checkpoints: read by the real loader, every tensor consumed, shapes of the real model.
#include "checkpoint/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_steps.h"
#include "kernels/observe/forwarding_steps.h"
#include "kernels/reference/reference_steps.h"
#include "support/diffusion.h"
#include "support/qwen.h"

namespace weir::test {
namespace {

TEST(Synthetic, a_few_layers_load_and_give_finite_logits_of_sane_size) {
  auto checkpoint = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b,layers=1");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  auto loaded =
      qwen::Model::load(std::move(*checkpoint), make_reference_steps(), {.max_rows = 1, .max_wanted = 1}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  SequenceState state = new_sequence(**loaded);
  const Tokens token{1234};
  const auto logits = run_pass(**loaded, state, token);
  ASSERT_EQ(logits.size(), 248320u);
  double squares = 0;
  for (const float l : logits) squares += static_cast<double>(l) * l;
  const double size = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(size, 0.3);  // unit-gain rows on a normed stream give logits of size 1
  EXPECT_LT(size, 3.0);
}

TEST(Synthetic, all_layers_have_the_bytes_of_the_real_checkpoint) {
  auto checkpoint = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  // 34.66 G parameters in 4.50 bits: 19.51 GB by the model's own file.
  EXPECT_NEAR(static_cast<double>(checkpoint->total_bytes()) * 1e-9, 19.51, 0.02);
}

// Counts the rows that each expert gets, layer by layer.
class RoutingWatch final : public ForwardingSteps {
 public:
  RoutingWatch(std::unique_ptr<Steps> steps, std::vector<std::vector<int64_t>>& layers)
      : ForwardingSteps(std::move(steps)), layers_(layers) {}

  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override {
    std::vector<int64_t> rows(static_cast<size_t>(w.experts));
    for (int64_t p = 0; p < routing.rows * routing.slots; ++p) {
      ++rows[static_cast<size_t>(routing.experts[p])];
    }
    layers_.push_back(std::move(rows));
    inner().experts_up(activated, normed, routing, w);
  }

 private:
  std::vector<std::vector<int64_t>>& layers_;
};

int64_t experts_hit(const std::vector<int64_t>& rows) {
  return std::count_if(rows.begin(), rows.end(), [](int64_t n) { return n > 0; });
}

Tokens spread_tokens(size_t count, int64_t seed) {
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((static_cast<int64_t>(i) + seed) * 104729 % 262144));
  }
  return tokens;
}

TEST(SyntheticDiffusionGemma, passes_stay_finite_and_rows_go_to_all_experts) {
  ThreadPool pool(cpu_features().hardware_threads);
  auto cpu = make_cpu_steps(pool, cpu_features().best_isa());
  ASSERT_TRUE(cpu.ok());
  std::vector<std::vector<int64_t>> layers;
  const auto model = load_diffusion(synthetic_checkpoint("synthetic:diffusiongemma-26b-a4b,layers=6"),
                                    std::make_unique<RoutingWatch>(std::move(*cpu), layers));
  ASSERT_NE(model, nullptr);
  SequenceState state = taken(model->new_sequence());
  feed(*model, state, spread_tokens(300, 1));
  CanvasState canvas = taken(model->new_canvas());
  const Tokens tokens = spread_tokens(256, 5000);
  CanvasPass pass;
  pass.soft_tokens = 64;  // a pass over all tokens costs twice the time, and no rounding of its own
  pass.conditioned = false;
  denoise(*model, state, canvas, tokens, pass);
  pass.conditioned = true;
  layers.clear();
  for (const Belief& belief : denoise(*model, state, canvas, tokens, pass)) {
    ASSERT_TRUE(std::isfinite(belief.entropy) && std::isfinite(belief.best_probability));
    // The head is the embedding, and after six layers a row still remembers its own token, whose logit stands
    // out of the others of size 1; neither it nor they decide alone.
    EXPECT_GT(belief.entropy, 2);
    EXPECT_LT(belief.entropy, std::log(262144.0));
    EXPECT_LT(belief.best_probability, 0.95f);
  }
  ASSERT_EQ(layers.size(), 6u);
  for (const std::vector<int64_t>& rows : layers) {
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), int64_t{0}), 256 * 8);
    EXPECT_GE(experts_hit(rows), 127) << "of 128";               // uniform: all
    EXPECT_LE(*std::max_element(rows.begin(), rows.end()), 40);  // uniform: 16 on average
  }

  pass.slots = count_up(16, 100);
  layers.clear();
  denoise(*model, state, canvas, tokens, pass);
  for (const std::vector<int64_t>& rows : layers) EXPECT_NEAR(experts_hit(rows), 82, 10);  // uniform: 82
}

TEST(Synthetic, refuses_what_it_does_not_know) {
  for (const char* reference :
       {"synthetic:", "synthetic:llama", "synthetic:qwen3.6-35b-a3b,", "qwen3.6-35b-a3b",
        "synthetic:qwen3.6-35b-a3b,layers=0", "synthetic:qwen3.6-35b-a3b,layers=41",
        "synthetic:qwen3.6-35b-a3b,layers=2x", "synthetic:qwen3.6-35b-a3b,depth=2"}) {
    const auto checkpoint = synthetic_checkpoint(reference);
    ASSERT_FALSE(checkpoint.ok()) << reference;
    EXPECT_EQ(checkpoint.error().code, Code::kInvalidArgument);
    EXPECT_NE(checkpoint.error().message.find(reference), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::test
