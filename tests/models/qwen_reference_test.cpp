// The reference steps against what the official implementation computes in float32.
#include <gtest/gtest.h>

#include <map>

#include "kernels/observe/forwarding_steps.h"
#include "kernels/reference/reference_steps.h"
#include "support/golden.h"
#include "support/qwen.h"

namespace weir::test {
namespace {

// Test names may hold letters, digits and underscores only.
std::string layout_name(const testing::TestParamInfo<std::string>& layout) {
  std::string name = layout.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

constexpr double kTolerance = 2e-4;
const std::string kTiny = "tests/data/qwen-tiny/";

using Stages = std::map<std::string, std::vector<float>>;

// Collects what every step leaves behind, under the golden's names.
class RecordingSteps final : public ForwardingSteps {
 public:
  RecordingSteps(std::unique_ptr<Steps> inner, Stages* stages)
      : ForwardingSteps(std::move(inner)), stages_(stages) {}

  void embed(Rows x, const Batch& batch, const Embedding& embedding) override {
    ForwardingSteps::embed(x, batch, embedding);
    record("stage.embed", x);
    layer = 0;
  }
  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override {
    before_.assign(x.floats(), x.floats() + x.rows * x.cols);
    ForwardingSteps::norm_project(out, x, gain, epsilon, w);
    rename("probe.normed", stage("mixer_in"));
  }
  void project_add(Rows x, Rows mixed, const Linear& w) override {
    ForwardingSteps::project_add(x, mixed, w);
    record(stage("mixer_residual"), x);
    record_change(stage("mixer_out"), x);
    for (const char* name : {"q", "k", "v", "qkv", "g", "beta", "o"})
      rename(std::string("probe.") + name, stage(name));
    rename("probe.attention", stage("attn"));
  }
  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override {
    before_.assign(x.floats(), x.floats() + x.rows * x.cols);
    ForwardingSteps::norm_route(normed, routing, x, gain, epsilon, w);
    record(stage("moe_in"), normed);
    for (int64_t t = 0; t < routing.rows; ++t) {
      for (int64_t s = 0; s < w.top_k; ++s) {
        (*stages_)[stage("router_ids")].push_back(static_cast<float>(routing.experts[t * routing.slots + s]));
        (*stages_)[stage("router_weights")].push_back(routing.weights[t * routing.slots + s]);
      }
    }
  }
  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override {
    ForwardingSteps::experts_down_add(x, activated, routing, w);
    record(stage("out"), x);
    record_change(stage("moe_out"), x);
    ++layer;
  }
  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override {
    ForwardingSteps::norm_head(logits, x, gain, epsilon, head, batch);
    rename("probe.normed", "stage.final");
  }

  int layer = 0;

 private:
  std::string stage(const std::string& name) const { return "stage." + std::to_string(layer) + "." + name; }

  void record(const std::string& name, Rows rows) {
    (*stages_)[name].assign(rows.floats(), rows.floats() + rows.rows * rows.cols);
  }
  void record_change(const std::string& name, Rows x) {
    auto& out = (*stages_)[name];
    out.clear();
    for (size_t i = 0; i < before_.size(); ++i) out.push_back(x.floats()[i] - before_[i]);
  }
  void rename(const std::string& from, const std::string& to) {
    if (auto node = stages_->extract(from)) {
      node.key() = to;
      stages_->insert(std::move(node));
    }
  }

  Stages* stages_;
  std::vector<float> before_;
};

std::unique_ptr<qwen::Model> load_tiny(const std::string& layout) {
  return load_qwen(kTiny + layout, make_reference_steps(), {.max_rows = 130, .max_wanted = 130});
}

class TinyQwen : public testing::TestWithParam<std::string> {
 protected:
  Golden golden_{kTiny + GetParam() + "/golden.safetensors"};
};

TEST_P(TinyQwen, logits_of_whole_prompts_equal_the_golden) {
  const auto model = load_tiny(GetParam());
  ASSERT_NE(model, nullptr);
  for (const int length : {1, 5, 63, 64, 65, 130}) {
    SequenceState state = new_sequence(*model);
    const std::string suffix = std::to_string(length);
    const auto logits = run_pass(*model, state, golden_.ints("ids." + suffix));
    const auto expected = golden_.floats("logits." + suffix);
    EXPECT_LE(relative_error(last(logits, expected.size()), expected), kTolerance) << "T = " << length;
  }
}

TEST_P(TinyQwen, single_steps_after_a_prefill_equal_the_golden) {
  const auto model = load_tiny(GetParam());
  ASSERT_NE(model, nullptr);
  const auto ids = golden_.ints("decode.ids");
  std::vector<size_t> sizes(ids.size() - 5 + 1, 1);
  sizes[0] = 5;
  SequenceState state = new_sequence(*model);
  const auto logits = run_cut(*model, state, ids, sizes);
  const auto expected = golden_.floats("decode.logits");
  EXPECT_LE(relative_error(last(logits, expected.size()), expected), kTolerance);
}

TEST_P(TinyQwen, a_cached_continuation_equals_the_golden) {
  const auto model = load_tiny(GetParam());
  ASSERT_NE(model, nullptr);
  const std::vector<size_t> sizes{40, 25};
  SequenceState state = new_sequence(*model);
  const auto logits = run_cut(*model, state, golden_.ints("ids.65"), sizes);
  const auto expected = golden_.floats("continue.logits");
  EXPECT_LE(relative_error(last(logits, expected.size()), expected), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(layouts, TinyQwen, testing::Values("hf", "mlx-4bit", "mlx-mixed"), layout_name);

class TinyQwenStages : public TinyQwen {};

TEST_P(TinyQwenStages, every_stage_and_state_equals_the_golden) {
  Stages stages;
  auto reference = make_reference_steps([&](std::string_view name, std::span<const float> row) {
    auto& stage = stages["probe." + std::string(name)];
    stage.insert(stage.end(), row.begin(), row.end());
  });
  const auto model =
      load_qwen(kTiny + GetParam(), std::make_unique<RecordingSteps>(std::move(reference), &stages),
                {.max_rows = 65, .max_wanted = 65});
  ASSERT_NE(model, nullptr);
  SequenceState state = new_sequence(*model);
  run_pass(*model, state, golden_.ints("ids.65"));

  int compared = 0;
  for (const auto& [name, found] : stages) {
    ASSERT_TRUE(golden_.has(name)) << name;
    const bool ids = name.ends_with("router_ids");
    std::vector<float> expected;
    if (ids) {
      for (const int32_t id : golden_.ints(name)) expected.push_back(static_cast<float>(id));
    } else {
      expected = golden_.floats(name);
    }
    EXPECT_LE(relative_error(last(found, expected.size()), expected), ids ? 0.0 : kTolerance) << name;
    ++compared;
  }
  for (int layer = 0; layer < 3; ++layer) {
    const DeltaState& delta = state.delta[static_cast<size_t>(layer)];
    const std::string prefix = "state." + std::to_string(layer);
    const auto S = golden_.floats(prefix + ".S"), conv = golden_.floats(prefix + ".conv");
    EXPECT_LE(relative_error({delta.recurrent.floats(), S.size()}, S), kTolerance) << prefix;
    EXPECT_LE(relative_error({delta.conv.floats(), conv.size()}, conv), kTolerance) << prefix;
  }
  // 2 overall; per layer mixer_in, mixer_out, mixer_residual, moe_in, router ids and weights, moe_out, out;
  // and 4 inner ones.
  EXPECT_EQ(compared, 2 + 4 * (8 + 4));
}

INSTANTIATE_TEST_SUITE_P(layouts, TinyQwenStages, testing::Values("hf", "mlx-4bit"), layout_name);

// The pocket models: teacher-forced logits, and greedy answers to 40 held-out problems.
struct Pocket {
  std::string name, model, golden;
};

std::string pocket_name(const testing::TestParamInfo<Pocket>& pocket) {
  return pocket.param.name;
}

class PocketQwen : public testing::TestWithParam<Pocket> {
 protected:
  void SetUp() override {
    for (const std::string& path : {GetParam().model, GetParam().golden}) {
      if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    }
  }
};

TEST_P(PocketQwen, teacher_forced_logits_equal_the_golden) {
  const Golden golden(GetParam().golden);
  const auto model =
      load_qwen(GetParam().model, make_reference_steps(), {.max_rows = 512, .max_wanted = 512});
  ASSERT_NE(model, nullptr);
  for (int k = 0; k < 6; ++k) {
    SequenceState state = new_sequence(*model);
    auto ids = golden.ints("prompt." + std::to_string(k));
    const auto answer = golden.ints("greedy." + std::to_string(k));
    const auto expected = golden.floats("logits." + std::to_string(k));
    const size_t rows = expected.size() / static_cast<size_t>(model->config().vocabulary);
    for (size_t i = 0; ids.size() < rows; ++i) ids.push_back(answer[i]);
    EXPECT_LE(relative_error(run_pass(*model, state, ids), expected), kTolerance) << "prompt " << k;
  }
}

TEST_P(PocketQwen, greedy_answers_equal_the_golden_on_all_40_prompts) {
  const Golden golden(GetParam().golden);
  const auto model = load_qwen(GetParam().model, make_reference_steps(), {.max_rows = 512, .max_wanted = 1});
  ASSERT_NE(model, nullptr);
  const std::vector<int32_t> stops{1357, 1355};
  for (int k = 0; k < 40; ++k) {
    const std::string suffix = std::to_string(k);
    EXPECT_EQ(greedy(*model, golden.ints("prompt." + suffix), 128, stops), golden.ints("greedy." + suffix))
        << suffix;
  }
}

INSTANTIATE_TEST_SUITE_P(layouts, PocketQwen,
                         testing::Values(Pocket{"mlx_4bit", "models/pocket-qwen",
                                                "tests/data/pocket/qwen-mlx-4bit.safetensors"},
                                         Pocket{"hf", "../shared/models/pocket-qwen/hf",
                                                "../shared/models/pocket-qwen/hf/golden.safetensors"}),
                         pocket_name);

}  // namespace
}  // namespace weir::test
