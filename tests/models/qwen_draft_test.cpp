// The multi-token prediction head against a computation in float64 (tools/draft_head_golden.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/quantize.h"
#include "checkpoint/write_checkpoint.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/observe/forwarding_steps.h"
#include "kernels/reference/reference_steps.h"
#include "models/qwen/draft_head.h"
#include "support/draft_head.h"
#include "support/golden.h"

namespace weir::test {
namespace {

// Keeps the logits of the last head pass.
class HeadRecorder final : public ForwardingSteps {
 public:
  using ForwardingSteps::ForwardingSteps;
  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override {
    ForwardingSteps::norm_head(logits, x, gain, epsilon, head, batch);
    last.assign(logits.floats(), logits.floats() + logits.rows * logits.cols);
  }
  std::vector<float> last;
};

class DraftHeadGolden : public testing::Test {
 protected:
  void load(std::unique_ptr<Steps> steps, Result<Checkpoint> checkpoint = tiny_checkpoint_with_head()) {
    auto recorder = std::make_unique<HeadRecorder>(std::move(steps));
    recorder_ = recorder.get();
    model_ = load_with_head(std::move(checkpoint), std::move(recorder));
    ASSERT_NE(model_, nullptr);
    state_ = new_sequence(*model_);
    pairs_ = std::move(*model_->new_draft_sequence());
  }

  // One pass of the model over `tokens`, wanting nothing.
  void run(std::span<const int32_t> tokens) {
    const Segment segment{&state_, 0, static_cast<int64_t>(tokens.size())};
    ASSERT_TRUE(model_->run({.tokens = tokens, .segments = {&segment, 1}, .wanted = {}}).ok());
  }

  Tokens draft(int64_t first_row, std::span<const int32_t> tokens, int64_t most) {
    auto guesses = model_->draft(pairs_, first_row, tokens, most);
    EXPECT_TRUE(guesses.ok()) << guesses.error().message;
    return guesses.ok() ? *guesses : Tokens{};
  }

  std::vector<float> expected_logits(int64_t pair) const {
    const auto all = golden_.floats("logits");
    return {all.begin() + 512 * pair, all.begin() + 512 * (pair + 1)};
  }

  Golden golden_{"tests/data/qwen-tiny/draft-head/golden.safetensors"};
  Tokens ids_ = Golden("tests/data/qwen-tiny/hf/golden.safetensors").ints("ids.65");
  HeadRecorder* recorder_ = nullptr;
  std::unique_ptr<qwen::Model> model_;
  SequenceState state_, pairs_;
};

TEST_F(DraftHeadGolden, ReferenceLogitsOfEveryPairEqualTheComputationInFloat64) {
  load(make_reference_steps());
  const std::span<const int32_t> ids(ids_);
  run(ids);
  for (int64_t i = 0; i < 64; ++i) {
    draft(i, ids.subspan(static_cast<size_t>(i) + 1, 1), 1);
    EXPECT_LE(relative_error(recorder_->last, expected_logits(i)), 2e-4) << "pair " << i;
  }
}

TEST_F(DraftHeadGolden, PairsOfSeveralPassesAndChunksLeadToTheSameGuesses) {
  const std::span<const int32_t> ids(ids_);
  for (const size_t cut : {1, 17, 40, 63}) {
    load(make_reference_steps());
    run(ids.first(cut));
    draft(0, ids.subspan(1, cut), 0);
    run(ids.subspan(cut));
    EXPECT_EQ(draft(0, ids.subspan(cut + 1), 4), golden_.ints("chain")) << cut;
    EXPECT_EQ(pairs_.position, 64);
  }
}

TEST_F(DraftHeadGolden, AGuessLeavesNothingBehind) {
  load(make_reference_steps());
  const std::span<const int32_t> ids(ids_);
  run(ids);
  draft(0, ids.subspan(1, 40), 4);
  draft(40, ids.subspan(41, 1), 3);
  EXPECT_EQ(draft(41, ids.subspan(42, 23), 4), golden_.ints("chain"));
}

TEST_F(DraftHeadGolden, TheCpuGuessesAlike) {
  ThreadPool pool(2);
  for (const Isa isa : {Isa::kPortable, cpu_features().best_isa()}) {
    auto steps = make_cpu_steps(pool, isa);
    ASSERT_TRUE(steps.ok());
    load(std::move(*steps));
    const std::span<const int32_t> ids(ids_);
    run(ids);
    EXPECT_EQ(draft(0, ids.subspan(1), 4), golden_.ints("chain"));
  }
}

// The tiny model with its head as a folder of bfloat16's layout, quantised into another.
void quantize_with_head(const std::string& to, Precision base, std::string_view departures) {
  const std::string from = to + "-whole";
  const std::atomic<bool> cancelled{false};
  auto whole = tiny_checkpoint_with_head();
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(write_checkpoint(*whole, from, {}, cancelled).ok());
  const auto written = Checkpoint::open(from);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto recipe = QuantizeRecipe::make(ModelFamily::kQwen, base, departures);
  ASSERT_TRUE(recipe.ok());
  ThreadPool pool(2);
  const auto report = quantize(*written, to, *recipe, {}, pool, {}, cancelled);
  ASSERT_TRUE(report.ok()) << report.error().message;
}

class QuantisedDraftHead : public DraftHeadGolden {
 protected:
  ~QuantisedDraftHead() override { std::filesystem::remove_all(work_); }

  const std::filesystem::path work_ =
      std::filesystem::path(testing::TempDir()) / ("weir-draft-" + std::to_string(::getpid()));
};

TEST_F(QuantisedDraftHead, LiesInAFileOfItsOwnAndGuessesAlikeWhenMatricesStayWhole) {
  const std::string folder = work_ / "out";
  quantize_with_head(
      folder, {8, 32},
      "attention=bf16,delta-net=bf16,router=bf16,experts=bf16,shared-expert=bf16,embedding=bf16,head=bf16");
  const auto head = SafetensorsFile::open(folder + "/mtp.safetensors");
  ASSERT_TRUE(head.ok()) << head.error().message;
  for (const TensorView& tensor : head->tensors()) EXPECT_TRUE(tensor.name.starts_with("mtp."));
  const auto others = SafetensorsFile::open(folder + "/model.safetensors");
  ASSERT_TRUE(others.ok());
  for (const TensorView& tensor : others->tensors()) EXPECT_FALSE(tensor.name.starts_with("mtp."));

  // Gains of norms, in the model too, are 1 + w rounded to bfloat16: 2^-9 each. A gain that lacks its 1 or
  // experts in the wrong order are off by as much as the logits.
  load(make_reference_steps(), Checkpoint::open(folder));
  const std::span<const int32_t> ids(ids_);
  run(ids);
  for (int64_t i = 0; i < 64; ++i) {
    draft(i, ids.subspan(static_cast<size_t>(i) + 1, 1), 1);
    EXPECT_LE(relative_error(recorder_->last, expected_logits(i)), 0.06) << "pair " << i;
  }
}

TEST_F(QuantisedDraftHead, DecodesToItsWeightsAndLoads) {
  const std::string folder = work_ / "out";
  quantize_with_head(folder, {8, 32}, "router=8:32");
  auto whole = Checkpoint::open(folder + "-whole");
  auto bits = Checkpoint::open(folder);
  ASSERT_TRUE(whole.ok() && bits.ok());
  struct Pair {
    std::string whole, bits;
    int64_t rows, cols;
    bool affine;
  };
  const std::string layer = "mtp.layers.0.";
  for (const Pair& p :
       {Pair{layer + "self_attn.o_proj", layer + "self_attn.o_proj", 64, 1024, true},
        Pair{layer + "mlp.experts.down_proj", layer + "mlp.switch_mlp.down_proj", 16 * 64, 64, true},
        Pair{"mtp.fc", "mtp.fc", 64, 128, false}}) {
    const auto expected = whole->matrix(p.whole, p.rows, p.cols);
    const auto actual = bits->matrix(p.bits, p.rows, p.cols);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(actual.ok()) << actual.error().message;
    EXPECT_EQ(actual->encoding.affine(), p.affine);
    std::vector<float> want(static_cast<size_t>(p.cols)), have(want.size());
    for (int64_t row = 0; row < p.rows; ++row) {
      decode_row(*expected, row, want.data());
      decode_row(*actual, row, have.data());
      EXPECT_LE(relative_error(have, want), 0.02) << p.bits << ", row " << row;
    }
  }
  load(make_reference_steps(), Checkpoint::open(folder));
}

TEST(DraftHead, IsMissedWhereThereIsNone) {
  auto checkpoint = Checkpoint::open("models/pocket-qwen");
  ASSERT_TRUE(checkpoint.ok());
  const auto model =
      qwen::Model::load(std::move(*checkpoint), make_reference_steps(), {.draft_head = true}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::kNotFound);
  EXPECT_NE(model.error().message.find("mtp."), std::string::npos) << model.error().message;
}

TEST(DraftHead, AMissingOrMisshapenTensorIsNamed) {
  const auto load_without = [](const std::string& name) {
    auto whole = tiny_checkpoint_with_head();
    EXPECT_TRUE(whole.ok());
    auto owner = std::make_shared<Checkpoint>(std::move(*whole));
    std::vector<TensorView> tensors;
    for (const TensorView* tensor : owner->tensors()) {
      if (tensor->name != name) tensors.push_back(*tensor);
    }
    auto checkpoint = Checkpoint::from_memory("cut", owner->config(), tensors, owner);
    EXPECT_TRUE(checkpoint.ok());
    return qwen::Model::load(std::move(*checkpoint), make_reference_steps(), {.draft_head = true}, {});
  };
  for (const std::string name :
       {"mtp.norm.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.layers.0.self_attn.k_proj.weight",
        "mtp.layers.0.mlp.experts.down_proj"}) {
    const auto model = load_without(name);
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_NE(model.error().message.find(name.substr(0, name.rfind(".weight"))), std::string::npos)
        << model.error().message;
  }
}

// Columns of affine matrices decode to the columns of the whole.
TEST(MatrixColumns, DecodeToTheColumnsOfTheWhole) {
  auto checkpoint = Checkpoint::open("tests/data/qwen-tiny/mlx-mixed");
  ASSERT_TRUE(checkpoint.ok());
  int tried = 0;
  for (const TensorView* tensor : checkpoint->tensors()) {
    const std::string suffix = ".weight";
    if (!tensor->name.ends_with("o_proj.weight") && !tensor->name.ends_with("out_proj.weight")) continue;
    std::string module = tensor->name.substr(0, tensor->name.size() - suffix.size());
    module = module.substr(module.find("model.layers"));
    const int64_t cols = tensor->name.ends_with("o_proj.weight") ? 1024 : 512;
    const auto whole = checkpoint->matrix(module, 64, cols);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    ++tried;
    std::vector<float> all(static_cast<size_t>(cols)), part(static_cast<size_t>(cols / 2));
    for (const int64_t first : {int64_t{0}, cols / 2}) {
      const qwen::MatrixColumns columns(*whole, first, cols / 2);
      for (int64_t r = 0; r < 64; ++r) {
        decode_row(*whole, r, all.data());
        decode_row(columns.matrix(), r, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << module << ", row " << r;
      }
    }
  }
  EXPECT_GE(tried, 4);
}

}  // namespace
}  // namespace weir::test
