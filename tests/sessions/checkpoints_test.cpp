#include "sessions/checkpoints.h"

#include <gtest/gtest.h>

#include "support/diffusion.h"

namespace weir::test {
namespace {

using Positions = std::vector<int64_t>;

TEST(Checkpoints, QwenStopsAtStridesWherePromptsPartAndBeforeTheGenerationPrompt) {
  const Tokenizer tokenizer = taken(Tokenizer::load("models/pocket-qwen/tokenizer.json"));
  const Checkpoints checkpoints(tokenizer, false);
  Tokens prompt(3000, 20);
  prompt[5] = prompt[2950] = *tokenizer.find("<|im_start|>");
  EXPECT_EQ(checkpoints.positions(prompt, 0, 0), (Positions{1024, 2048, 2950}));
  EXPECT_EQ(checkpoints.positions(prompt, 1024, 1500), (Positions{1500, 2048, 2950}));
  EXPECT_EQ(checkpoints.positions(prompt, 1024, 1030), (Positions{2048, 2950})) << "six tokens in common";
  EXPECT_EQ(checkpoints.positions(prompt, 2950, 2970), (Positions{}));
  const Tokens plain(100, 20);
  EXPECT_EQ(checkpoints.positions(plain, 0, 0), (Positions{99}));
  EXPECT_EQ(checkpoints.positions(Tokens{3}, 0, 0), (Positions{}));
}

TEST(Checkpoints, ADiffusionModelStopsAtStridesAndAtTheEnd) {
  const Tokenizer tokenizer = taken(Tokenizer::load("models/pocket-gemma/tokenizer.json"));
  const Checkpoints checkpoints(tokenizer, true);
  const Tokens prompt(2048, 20);
  EXPECT_EQ(checkpoints.positions(prompt, 0, 700), (Positions{1024, 2048}));
  EXPECT_EQ(checkpoints.positions(prompt, 2047, 2047), (Positions{2048}));
  EXPECT_EQ(checkpoints.positions(prompt, 2048, 2048), (Positions{}));
}

}  // namespace
}  // namespace weir::test
