// The reference steps against what the official implementation computes in float32: every stage of both
// modes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/diffusion.h"
#include "support/golden.h"

namespace weir::test {
namespace {

using diffusion_gemma::Model;

const std::string kTiny = "tests/data/diffusion-tiny/";
constexpr double kHidden = 5e-5;  // keys, values, hidden states
constexpr double kCausalLogits = 1e-4;
constexpr double kCanvasLogits = 3e-4;  // they reach 25

std::string layout_name(const testing::TestParamInfo<std::string>& layout) {
  return layout.param == "hf" ? "hf" : "mlx_4bit";
}

// The stages of one layer that the goldens name, and the probe's names for them.
const std::map<std::string, std::string> kStages{{"normed", "normed"},
                                                 {"q", "q"},
                                                 {"k", "k"},
                                                 {"v", "v"},
                                                 {"heads", "heads"},
                                                 {"attention", "attention"},
                                                 {"attention_normed", "attention_normed"},
                                                 {"residual", "residual"},
                                                 {"mlp_out", "project"},
                                                 {"mlp_normed", "mlp_normed"},
                                                 {"router_logits", "router_logits"},
                                                 {"router_weights", "router_weights"},
                                                 {"experts_out", "experts_out"},
                                                 {"experts_normed", "experts_normed"},
                                                 {"feedforward_normed", "feedforward_normed"},
                                                 {"output", "output"}};

// S = sqrt(H) sum of p_v E_v under the stored logits, in float64.
std::vector<float> soft_embedding(const std::vector<float>& logits, size_t rows, const Matrix& embedding,
                                  float scale) {
  const auto vocabulary = static_cast<size_t>(embedding.rows), hidden = static_cast<size_t>(embedding.cols);
  std::vector<float> row(hidden), out;
  for (size_t t = 0; t < rows; ++t) {
    const float* y = logits.data() + t * vocabulary;
    const double top = *std::max_element(y, y + vocabulary);
    double total = 0;
    std::vector<double> sum(hidden);
    for (size_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(y[v] - top);
      total += p;
      decode_row(embedding, static_cast<int64_t>(v), row.data());
      for (size_t c = 0; c < hidden; ++c) sum[c] += p * row[c];
    }
    for (const double s : sum) out.push_back(static_cast<float>(s / total * scale));
  }
  return out;
}

class TinyDiffusion : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    model_ = load_diffusion(kTiny + GetParam(), make_reference_steps(stages_.probe()));
    ASSERT_NE(model_, nullptr);
    prompt_ = encoder_.ids("prompt");
    layers_ = static_cast<size_t>(model_->config().layers);
  }

  SequenceState prefilled(size_t tokens) {
    SequenceState state = taken(model_->new_sequence());
    feed(*model_, state, first_tokens(prompt_, tokens));
    return state;
  }

  // A canvas whose expected embeddings come from the golden's `previous` logits.
  CanvasState conditioned_canvas() {
    CanvasState canvas = taken(model_->new_canvas());
    auto checkpoint = taken(Checkpoint::open(kTiny + GetParam()));
    const diffusion_gemma::Config& c = model_->config();
    const Matrix embedding = taken(checkpoint.matrix("model.decoder.embed_tokens", c.vocabulary, c.hidden));
    const auto soft = soft_embedding(decoder_.floats("previous"), static_cast<size_t>(c.canvas), embedding,
                                     c.embedding_scale);
    model_->steps().copy_in(canvas.soft.data(), soft.data(), soft.size() * sizeof(float));
    return canvas;
  }

  void expect_rows(const std::string& stage, size_t first, size_t count, const Golden& golden,
                   const std::string& name, double tolerance) {
    EXPECT_LE(largest_difference(stages_.rows(stage, first, count), golden.floats(name)), tolerance) << name;
  }

  // The stages of layers 0 and 1 at the last four of `rows` rows, and all hidden states.
  void expect_stages(const Golden& golden, size_t rows, size_t norms_before) {
    for (size_t layer = 0; layer < layers_; ++layer) {
      expect_rows("output", layer * rows, rows, golden, "hidden." + std::to_string(layer + 1), kHidden);
    }
    for (size_t layer = 0; layer < 2; ++layer) {
      const std::string prefix = "layer" + std::to_string(layer) + ".";
      const size_t first = layer * rows + rows - 4;
      for (const auto& [name, stage] : kStages) expect_rows(stage, first, 4, golden, prefix + name, kHidden);
      expect_rows("norm", norms_before + first, 4, golden, prefix + "experts_in", kHidden);
      const std::vector<float> ids = stages_.rows("router_ids", first, 4);
      EXPECT_EQ(Tokens(ids.begin(), ids.end()), golden.ids(prefix + "router_ids"));
    }
  }

  Stages stages_;
  std::unique_ptr<Model> model_;
  Golden encoder_{kTiny + GetParam() + "/golden-encoder.safetensors"};
  Golden decoder_{kTiny + GetParam() + "/golden-decoder.safetensors"};
  Tokens prompt_;
  size_t layers_ = 0;
};

TEST_P(TinyDiffusion, causal_logits_equal_the_golden) {
  size_t compared = 0;
  for (const size_t length : {1, 5, 31, 32, 33, 63, 95}) {
    const std::string name = "causal_logits." + std::to_string(length);
    if (!encoder_.has(name)) continue;
    SequenceState state = taken(model_->new_sequence());
    stages_.clear();
    feed(*model_, state, first_tokens(prompt_, length), std::min<size_t>(4, length));
    expect_rows("logits", 0, 0, encoder_, name, kCausalLogits);
    ++compared;
  }
  EXPECT_GE(compared, 3u);
}

TEST_P(TinyDiffusion, keys_and_values_of_every_position_equal_the_golden) {
  SequenceState state = taken(model_->new_sequence());
  const size_t count = encoder_.floats("kv.layer0.k").size() / (2 * 256);
  feed(*model_, state, first_tokens(prompt_, count), count);
  for (size_t layer = 0; layer < layers_; ++layer) {
    const std::string name = "kv.layer" + std::to_string(layer);
    expect_rows("k", layer * count, count, encoder_, name + ".k", kHidden);
    expect_rows("v", layer * count, count, encoder_, name + ".v", kHidden);
  }
}

TEST_P(TinyDiffusion, every_stage_of_a_causal_pass_equals_the_golden) {
  if (!encoder_.has("hidden.0")) GTEST_SKIP() << "this golden has no stages";
  SequenceState state = taken(model_->new_sequence());
  feed(*model_, state, first_tokens(prompt_, 33), 33);
  expect_rows("embedding", 0, 33, encoder_, "hidden.0", kHidden);
  expect_rows("final", 0, 33, encoder_, "final", kHidden);
  expect_stages(encoder_, 33, 0);
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    expect_rows("gated_in", layer * 33 + 29, 4, encoder_, prefix + "mlp_in", kHidden);
  }
}

TEST_P(TinyDiffusion, canvas_logits_with_and_without_self_conditioning_equal_the_golden) {
  const Tokens canvas_tokens = decoder_.ids("canvas");
  size_t compared = 0;
  for (const size_t length : {30, 31, 32, 33, 63}) {
    const std::string name = "logits." + std::to_string(length);
    if (!decoder_.has(name)) continue;
    SequenceState state = prefilled(length);
    CanvasState canvas = taken(model_->new_canvas());
    for (const bool conditioned : {false, true}) {  // zeros must act as no conditioning at all
      stages_.clear();
      denoise(*model_, state, canvas, canvas_tokens, {.conditioned = conditioned, .soft_tokens = 0});
      expect_rows("logits", 0, 0, decoder_, name, kCanvasLogits);
    }
    stages_.clear();
    canvas = conditioned_canvas();
    denoise(*model_, state, canvas, canvas_tokens, {});
    expect_rows("logits", 0, 0, decoder_, "logits_sc." + std::to_string(length), kCanvasLogits);
    EXPECT_EQ(state.position, static_cast<int64_t>(length));
    ++compared;
  }
  EXPECT_GE(compared, 1u);
}

TEST_P(TinyDiffusion, every_stage_of_a_conditioned_canvas_pass_equals_the_golden) {
  if (!decoder_.has("sc.soft")) GTEST_SKIP() << "this golden has no stages";
  const Tokens canvas_tokens = decoder_.ids("canvas");
  const size_t rows = canvas_tokens.size();
  SequenceState state = prefilled(33);
  CanvasState canvas = conditioned_canvas();
  stages_.clear();
  denoise(*model_, state, canvas, canvas_tokens, {});
  expect_rows("embedding", 0, rows, decoder_, "embedding", kHidden);
  expect_rows("soft", 0, rows, decoder_, "sc.soft", kHidden);
  expect_rows("gated_in", 0, rows, decoder_, "sc.normed", kHidden);
  expect_rows("gated", 0, rows, decoder_, "sc.activated", kHidden);
  expect_rows("norm", 0, rows, decoder_, "hidden.0", kHidden);
  expect_rows("final", 0, rows, decoder_, "final", kHidden);
  expect_stages(decoder_, rows, rows);

  stages_.clear();
  denoise(*model_, state, canvas, canvas_tokens, {.conditioned = false});
  expect_rows("norm", 0, rows, decoder_, "hidden.0.plain", kHidden);
}

TEST_P(TinyDiffusion, a_pass_leaves_the_expected_embedding_of_its_distribution) {
  const Tokens canvas_tokens = decoder_.ids("canvas");
  SequenceState state = prefilled(33);
  CanvasState canvas = taken(model_->new_canvas());
  constexpr float kTemperature = 0.8f;
  stages_.clear();
  denoise(*model_, state, canvas, canvas_tokens, {.temperature = kTemperature, .conditioned = false});
  std::vector<float> logits = stages_.rows("logits");
  for (float& y : logits) y /= kTemperature;
  const diffusion_gemma::Config& c = model_->config();
  auto checkpoint = taken(Checkpoint::open(kTiny + GetParam()));
  const Matrix embedding = taken(checkpoint.matrix("model.decoder.embed_tokens", c.vocabulary, c.hidden));
  const auto expected = soft_embedding(logits, canvas_tokens.size(), embedding, c.embedding_scale);
  std::vector<float> found(expected.size());
  model_->steps().copy_out(found.data(), canvas.soft.data(), found.size() * sizeof(float));
  EXPECT_LE(largest_difference(found, expected), 1e-5);
}

// Layer scalars that differ between the modes.
TEST(TinyDiffusionVariant, each_mode_is_scaled_with_its_own_layer_scalars) {
  const std::string folder = kTiny + "hf";
  const Golden golden(folder + "/golden-decoder.safetensors"),
      encoder(folder + "/golden-encoder.safetensors");
  Stages stages;
  auto checkpoint = taken(Checkpoint::open(folder));
  const std::vector<float> scalars = golden.floats("variant.encoder_scalars");
  std::vector<std::vector<std::byte>> stored;
  std::vector<TensorView> tensors;
  for (const TensorView* tensor : checkpoint.tensors()) {
    tensors.push_back(*tensor);
    for (size_t layer = 0; layer < scalars.size(); ++layer) {
      const std::string name =
          "model.encoder.language_model.layers." + std::to_string(layer) + ".layer_scalar";
      if (tensor->name != name) continue;
      stored.emplace_back(sizeof(float));
      std::memcpy(stored.back().data(), &scalars[layer], sizeof(float));
      tensors.back().dtype = Dtype::kF32;
      tensors.back().data = stored.back();
    }
  }
  ASSERT_EQ(stored.size(), scalars.size());
  const auto owner = std::make_shared<int>(0);
  const auto model = load_diffusion(Checkpoint::from_memory(folder, checkpoint.config(), tensors, owner),
                                    make_reference_steps(stages.probe()));
  ASSERT_NE(model, nullptr);
  SequenceState state = taken(model->new_sequence());
  feed(*model, state, first_tokens(encoder.ids("prompt"), 33), 4);
  EXPECT_LE(largest_difference(stages.rows("logits"), golden.floats("variant.causal_logits.33")),
            kCausalLogits);
}

// Logits of a trained model: causal, of a first pass, and of a second one that the first conditions.
void expect_pocket_logits(const std::string& folder, const std::string& golden_path) {
  Stages stages;
  const auto model = load_diffusion(folder, make_reference_steps(stages.probe()));
  ASSERT_NE(model, nullptr);
  const Golden golden(golden_path);
  constexpr double kTolerance = 5e-4;
  for (int i = 0; golden.has("forward" + std::to_string(i) + ".prompt"); ++i) {
    const std::string forward = "forward" + std::to_string(i) + ".";
    SequenceState state = taken(model->new_sequence());
    CanvasState canvas = taken(model->new_canvas());
    const auto expect_logits = [&](const std::string& name) {
      EXPECT_LE(largest_difference(stages.rows("logits"), golden.floats(forward + name)), kTolerance)
          << forward << name;
      stages.clear();
    };
    stages.clear();
    feed(*model, state, golden.ids(forward + "prompt"), 8);
    expect_logits("causal_logits");
    const Tokens tokens = golden.ids(forward + "canvas");
    denoise(*model, state, canvas, tokens, {.temperature = 0.8f, .conditioned = false});
    expect_logits("logits");
    denoise(*model, state, canvas, tokens, {});
    expect_logits("logits_sc");
  }
}

TEST(PocketDiffusion, logits_of_the_tracked_checkpoint_equal_the_golden) {
  expect_pocket_logits("models/pocket-gemma", "tests/data/pocket/gemma-mlx-4bit.safetensors");
}

TEST(PocketDiffusion, logits_of_the_unquantised_checkpoint_equal_the_golden) {
  const std::string folder = "../shared/models/pocket-gemma/hf";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  expect_pocket_logits(folder, folder + "/golden.safetensors");
}

INSTANTIATE_TEST_SUITE_P(Layouts, TinyDiffusion, testing::Values("hf", "mlx-4bit"), layout_name);

}  // namespace
}  // namespace weir::test
