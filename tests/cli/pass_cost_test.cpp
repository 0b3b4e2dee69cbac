#include "cli/pass_cost.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

diffusion_gemma::Config small_config() {
  diffusion_gemma::Config c;
  c.layers = 3;
  c.hidden = 32;
  c.vocabulary = 100;
  c.canvas = 8;
  c.heads = 2;
  c.sliding = {.kv_heads = 2, .head_dim = 32, .window = 5};
  c.full = {.kv_heads = 1, .head_dim = 64, .values_are_keys = true};
  c.is_full = {false, false, true};
  c.dense = 64;
  c.experts = 4;
  c.top_k = 2;
  c.intermediate = 96;
  return c;
}

StepCost step(const char* name, double seconds, uint64_t bytes) {
  return {name, 1, seconds, bytes};
}

double seconds(const PartCosts& costs, PassPart part) {
  return costs[static_cast<size_t>(part)].seconds;
}

// Before the layers, two sliding layers of 1 + 2 + 4 seconds, a full one of 10 + 20 + 40, and the head.
PassCost measured_pass() {
  const std::vector<StepCost> sliding{step("norm_project", 0.5, 10),
                                      step("attend", 0.25, 5),
                                      step("project_norm_add", 0.25, 5),
                                      step("norm_gated", 1, 1),
                                      step("project", 1, 1),
                                      step("route", 1, 1),
                                      step("norm", 0.5, 1),
                                      step("experts_up", 1, 1),
                                      step("experts_down", 1, 1),
                                      step("feed_forward_add", 0.5, 1)};
  const std::vector<StepCost> full{step("attend", 10, 7), step("norm_gated", 20, 0),
                                   step("experts_up", 40, 0), step("norm_head", 300, 9)};
  const std::vector<StepCost> before{step("embed", 1000, 1), step("norm_gated", 1000, 1),
                                     step("norm", 1000, 1)};
  return pass_cost({before, sliding, sliding, full}, small_config(), {.rows = 3, .committed = 7});
}

TEST(PassCost, steps_belong_to_the_part_in_which_they_happen) {
  const PartCosts total = measured_pass().total();
  EXPECT_DOUBLE_EQ(seconds(total, PassPart::kCondition), 3000);
  EXPECT_DOUBLE_EQ(seconds(total, PassPart::kAttention), 1 + 1 + 10);
  EXPECT_DOUBLE_EQ(seconds(total, PassPart::kDense), 2 + 2 + 20);
  EXPECT_DOUBLE_EQ(seconds(total, PassPart::kExperts), 4 + 4 + 40);
  EXPECT_DOUBLE_EQ(seconds(total, PassPart::kHead), 300);
  EXPECT_DOUBLE_EQ(sum_of(total).bytes, 3 + 2 * 27 + 16);
}

TEST(PassCost, more_layers_cost_as_much_as_those_of_their_kind) {
  const PartCosts whole = measured_pass().with_layers(25, 5);
  EXPECT_DOUBLE_EQ(seconds(whole, PassPart::kCondition), 3000);
  EXPECT_DOUBLE_EQ(seconds(whole, PassPart::kAttention), 25 * 1 + 5 * 10);
  EXPECT_DOUBLE_EQ(seconds(whole, PassPart::kDense), 25 * 2 + 5 * 20);
  EXPECT_DOUBLE_EQ(seconds(whole, PassPart::kExperts), 25 * 4 + 5 * 40);
  EXPECT_DOUBLE_EQ(seconds(whole, PassPart::kHead), 300);
}

// Multiply-adds of a row, twice, for 3 rows. Of the 7 committed tokens a sliding layer sees 4, behind them
// the canvas of 8.
TEST(PassCost, arithmetic_is_that_of_the_rows_matrices_and_of_what_they_see) {
  const PartCosts total = measured_pass().total();
  const auto flops = [&](PassPart part) { return total[static_cast<size_t>(part)].flops; };
  const double sliding = 32 * (6 * 32 + 2 * 32) + 2 * (4 + 8) * 64;
  const double full = 32 * (3 * 64 + 2 * 64) + 2 * (7 + 8) * 128;
  EXPECT_DOUBLE_EQ(flops(PassPart::kAttention), 6 * (2 * sliding + full));
  EXPECT_DOUBLE_EQ(flops(PassPart::kCondition), 6 * 3 * 64 * 32);
  EXPECT_DOUBLE_EQ(flops(PassPart::kDense), 6 * 3 * (3 * 64 * 32));
  EXPECT_DOUBLE_EQ(flops(PassPart::kExperts), 6 * 3 * (2 * 3 * 96 * 32 + 4 * 32));
  EXPECT_DOUBLE_EQ(flops(PassPart::kHead),
                   6 * 2 * 100 * 32);  // logits, and the embeddings expected from them
  const PartCosts few = pass_cost({{}}, small_config(), {.rows = 3, .soft_tokens = 64}).total();
  EXPECT_DOUBLE_EQ(few[static_cast<size_t>(PassPart::kHead)].flops, 6 * 100 * 32);
}

}  // namespace
}  // namespace weir::cli
