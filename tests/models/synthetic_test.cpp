// Synthetic checkpoints: read by the real loader, every tensor consumed, shapes of the real model.
#include "checkpoint/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference/reference_steps.h"
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
