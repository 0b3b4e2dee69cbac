// The CPU's steps under whole passes: what must not change a bit does not, and what is rounded stays near the
// goldens.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_steps.h"
#include "support/diffusion.h"
#include "support/golden.h"

namespace weir::test {
namespace {

using diffusion_gemma::Model;

const std::string kTiny = "tests/data/diffusion-tiny/hf";
const std::string kPocket = "models/pocket-gemma";

bool same_bits(const std::vector<Belief>& a, const std::vector<Belief>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Belief)) == 0;
}

std::vector<float> soft_of(Model& model, const CanvasState& canvas) {
  const auto& c = model.config();
  std::vector<float> out(static_cast<size_t>(c.canvas * c.hidden));
  model.steps().copy_out(out.data(), canvas.soft.data(), out.size() * sizeof(float));
  return out;
}

class CpuDiffusion : public testing::Test {
 protected:
  void load(const std::string& folder) {
    model_ = load_diffusion(folder, taken(make_cpu_steps(pool_, cpu_features().best_isa())), 640);
    ASSERT_NE(model_, nullptr);
  }

  Tokens random_tokens(size_t count) {
    Tokens out;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(static_cast<int32_t>(random_() % static_cast<uint32_t>(model_->config().vocabulary)));
    }
    return out;
  }

  // Two passes over a canvas behind `prefix`, fed in chunks of these sizes.
  struct Outcome {
    std::vector<Belief> first, second;
    std::vector<float> soft;

    bool operator==(const Outcome& other) const {
      return same_bits(first, other.first) && same_bits(second, other.second) && soft == other.soft;
    }
  };

  Outcome run(const Tokens& prefix, const Tokens& canvas_tokens, const std::vector<size_t>& chunks) {
    SequenceState state = taken(model_->new_sequence());
    size_t at = 0;
    for (const size_t size : chunks) {
      feed(*model_, state, std::span(prefix).subspan(at, size));
      at += size;
    }
    EXPECT_EQ(at, prefix.size());
    return denoise_twice(state, canvas_tokens);
  }

  Outcome denoise_twice(SequenceState& state, const Tokens& canvas_tokens) {
    CanvasState canvas = taken(model_->new_canvas());
    Outcome o;
    o.first = denoise(*model_, state, canvas, canvas_tokens, {.temperature = 0.8f, .conditioned = false});
    o.second = denoise(*model_, state, canvas, canvas_tokens, {.temperature = 0.7f});
    o.soft = soft_of(*model_, canvas);
    return o;
  }

  std::vector<size_t> random_chunks(size_t count) {
    std::vector<size_t> chunks;
    while (count > 0) {
      const size_t most = std::min<size_t>(count, 1 + random_() % 90);
      chunks.push_back(1 + random_() % most);
      count -= chunks.back();
    }
    return chunks;
  }

  ThreadPool pool_{2};
  std::unique_ptr<Model> model_;
  std::mt19937 random_{7};
};

TEST_F(CpuDiffusion, a_prefill_in_chunks_across_the_window_equals_one_pass_bit_for_bit) {
  for (const std::string& folder : {kTiny, kPocket}) {
    load(folder);
    const auto window = static_cast<size_t>(model_->config().sliding.window);
    const auto canvas = static_cast<size_t>(model_->config().canvas);
    for (const size_t length : {window - 2, window - 1, window, window + 1, window + 255}) {
      const Tokens prefix = random_tokens(length), tokens = random_tokens(canvas);
      const Outcome whole = run(prefix, tokens, {length});
      EXPECT_TRUE(run(prefix, tokens, random_chunks(length)) == whole) << folder << ", " << length;
      EXPECT_TRUE(run(prefix, tokens, random_chunks(length)) == whole) << folder << ", " << length;
    }
  }
}

TEST_F(CpuDiffusion, zero_expected_embeddings_equal_no_self_conditioning_bit_for_bit) {
  load(kPocket);
  const Tokens prefix = random_tokens(90), tokens = random_tokens(64);
  SequenceState state = taken(model_->new_sequence());
  feed(*model_, state, prefix);
  CanvasState a = taken(model_->new_canvas()), b = taken(model_->new_canvas());
  const auto skipped = denoise(*model_, state, a, tokens, {.temperature = 0.8f, .conditioned = false});
  const auto zeros = denoise(*model_, state, b, tokens, {.temperature = 0.8f, .conditioned = true});
  EXPECT_TRUE(same_bits(skipped, zeros));
  EXPECT_EQ(soft_of(*model_, a), soft_of(*model_, b));
}

TEST_F(CpuDiffusion, a_commit_together_with_the_next_canvas_equals_two_passes_bit_for_bit) {
  load(kPocket);
  const Tokens prefix = random_tokens(150), block = random_tokens(64), tokens = random_tokens(64);
  SequenceState apart = taken(model_->new_sequence());
  feed(*model_, apart, prefix);
  feed(*model_, apart, block);
  CanvasState canvas_apart = taken(model_->new_canvas());
  const auto expected =
      denoise(*model_, apart, canvas_apart, tokens, {.temperature = 0.8f, .conditioned = false});

  SequenceState state = taken(model_->new_sequence());
  feed(*model_, state, prefix);
  CanvasState canvas = taken(model_->new_canvas());
  const std::vector<int32_t> slots = count_up(64);
  Tokens rows = block;
  rows.insert(rows.end(), tokens.begin(), tokens.end());
  const Segment segment{&state, 0, 64};
  const CanvasSegment on_canvas{&state, &canvas, 214, 64, 64, slots};
  std::vector<Inquiry> inquiries;
  for (int32_t slot = 0; slot < 64; ++slot) {
    inquiries.push_back({.row = 64 + slot,
                         .temperature = 0.8f,
                         .draw = {.seed = 1, .position = static_cast<uint32_t>(slot)}});
  }
  CanvasBatch batch;
  batch.tokens = rows;
  batch.segments = {&segment, 1};
  batch.canvases = {&on_canvas, 1};
  batch.inquiries = inquiries;
  batch.conditioned = false;
  const auto found = model_->run(batch);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(same_bits({found->begin(), found->end()}, expected));
  EXPECT_EQ(soft_of(*model_, canvas), soft_of(*model_, canvas_apart));
  EXPECT_EQ(state.position, 214);
  // The committed keys and values are the same too.
  const Tokens next = random_tokens(64);
  EXPECT_TRUE(denoise_twice(state, next) == denoise_twice(apart, next));
}

TEST_F(CpuDiffusion, positions_left_out_of_a_pass_keep_their_keys_and_values) {
  load(kPocket);
  const Tokens prefix = random_tokens(70), tokens = random_tokens(64);
  SequenceState state = taken(model_->new_sequence());
  feed(*model_, state, prefix);
  CanvasState canvas = taken(model_->new_canvas());
  const auto full = denoise(*model_, state, canvas, tokens, {.conditioned = false, .soft_tokens = 0});
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<int32_t> slots;
    for (int32_t slot = 0; slot < 64; ++slot) {
      if (random_() % 2 == 0) slots.push_back(slot);
    }
    // With equal tokens and no self-conditioning all keys and values are what they were, so a subset sees the
    // same.
    const auto some =
        denoise(*model_, state, canvas, tokens, {.conditioned = false, .soft_tokens = 0, .slots = slots});
    ASSERT_EQ(some.size(), slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(std::memcmp(&some[i], &full[static_cast<size_t>(slots[i])], sizeof(Belief)), 0);
    }
  }
}

TEST_F(CpuDiffusion, a_sequence_that_was_cut_back_goes_on_as_if_it_had_never_been_longer) {
  load(kPocket);
  const Tokens prefix = random_tokens(400), tokens = random_tokens(64);
  for (const int64_t keep : {1, 63, 200, 256, 257, 399}) {
    SequenceState state = taken(model_->new_sequence());
    feed(*model_, state, prefix);
    ASSERT_TRUE(model_->cut(state, keep)) << keep;
    const Outcome cut = denoise_twice(state, tokens);
    EXPECT_TRUE(cut ==
                run(first_tokens(prefix, static_cast<size_t>(keep)), tokens, {static_cast<size_t>(keep)}))
        << keep;
  }
}

TEST_F(CpuDiffusion, pages_far_behind_the_window_are_given_back_and_cuts_that_need_them_are_refused) {
  load(kPocket);
  SequenceState state = taken(model_->new_sequence());
  const Tokens tokens = random_tokens(1500);
  for (size_t at = 0; at < tokens.size(); at += 500) {
    feed(*model_, state, std::span(tokens).subspan(at, 500));
  }
  size_t held = 0;
  for (const Buffer& page : state.kv[0].pages) held += page.data() != nullptr ? 1 : 0;
  EXPECT_LE(held, 4u) << "a sliding layer needs its window of 128 and what is kept behind it";
  for (const Buffer& page : state.kv.back().pages) EXPECT_NE(page.data(), nullptr);
  EXPECT_FALSE(model_->cut(state, 300));
  EXPECT_EQ(state.position, 1500);
  EXPECT_TRUE(model_->cut(state, 1500 - Model::kKeptBehindWindow));
}

// Best tokens where the golden's two best logits are clearly apart.
void expect_best_tokens(const std::vector<Belief>& found, const std::vector<float>& logits, float clear,
                        double least_share) {
  const size_t vocabulary = logits.size() / found.size();
  int same = 0, compared = 0;
  for (size_t t = 0; t < found.size(); ++t) {
    std::vector<float> row(logits.begin() + static_cast<int64_t>(t * vocabulary),
                           logits.begin() + static_cast<int64_t>((t + 1) * vocabulary));
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
    if (row[0] - row[1] < clear) continue;
    ++compared;
    same += found[t].best == best ? 1 : 0;
  }
  EXPECT_GE(same, least_share * compared) << same << " of " << compared;
  EXPECT_GT(compared, 5);
}

TEST_F(CpuDiffusion, best_tokens_of_the_pocket_model_agree_with_the_golden_where_they_are_clear) {
  load(kPocket);
  const Golden golden("tests/data/pocket/gemma-mlx-4bit.safetensors");
  for (const std::string forward : {"forward0", "forward1"}) {
    const Tokens prompt = golden.ids(forward + ".prompt"), tokens = golden.ids(forward + ".canvas");
    SequenceState state = taken(model_->new_sequence());
    const auto causal = feed(*model_, state, prompt, 8);
    expect_best_tokens(causal, golden.floats(forward + ".causal_logits"), 0.5f, 1.0);
    CanvasState canvas = taken(model_->new_canvas());
    // The golden's second pass is conditioned on the first at temperature 0.8, over the same canvas.
    const auto first = denoise(*model_, state, canvas, tokens, {.temperature = 0.8f, .conditioned = false});
    expect_best_tokens(first, golden.floats(forward + ".logits"), 0.5f, 0.95);
    const auto second = denoise(*model_, state, canvas, tokens, {});
    expect_best_tokens(second, golden.floats(forward + ".logits_sc"), 0.5f, 0.95);
  }
}

}  // namespace
}  // namespace weir::test
