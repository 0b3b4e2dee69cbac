// The CPU backend as a whole model: close to the goldens, and the same bits however the work is cut.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cpu/cpu_steps.h"
#include "support/golden.h"
#include "support/qwen.h"

namespace weir::test {
namespace {

const std::string kPocket = "models/pocket-qwen";
const std::string kTiny = "tests/data/qwen-tiny/";
const std::vector<int32_t> kStops{1357, 1355};

// A model on the CPU backend, with the threads that it needs.
struct CpuModel {
  CpuModel(const std::string& folder, int threads, Isa isa, const qwen::LoadOptions& options)
      : pool(threads) {
    auto steps = make_cpu_steps(pool, isa);
    EXPECT_TRUE(steps.ok()) << steps.error().message;
    if (steps.ok()) model = load_qwen(folder, std::move(*steps), options);
  }

  ThreadPool pool;
  std::unique_ptr<qwen::Model> model;
};

std::vector<size_t> random_cuts(size_t total, std::mt19937& rng) {
  std::vector<size_t> sizes;
  while (total > 0) {
    const size_t most = std::uniform_int_distribution<size_t>(1, 3)(rng) == 1 ? 3 : 70;
    sizes.push_back(std::min(total, std::uniform_int_distribution<size_t>(1, most)(rng)));
    total -= sizes.back();
  }
  return sizes;
}

Tokens random_tokens(size_t count, std::mt19937& rng) {
  Tokens tokens(count);
  for (int32_t& t : tokens) t = std::uniform_int_distribution<int32_t>(0, 255)(rng);
  return tokens;
}

void expect_same_state(const SequenceState& a, const SequenceState& b) {
  ASSERT_EQ(a.position, b.position);
  const auto same = [](const Buffer& x, const Buffer& y) {
    return x.bytes() == y.bytes() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
  };
  for (size_t i = 0; i < a.delta.size(); ++i) {
    EXPECT_TRUE(same(a.delta[i].recurrent, b.delta[i].recurrent)) << "recurrent state " << i;
    EXPECT_TRUE(same(a.delta[i].conv, b.delta[i].conv)) << "convolution state " << i;
  }
  for (size_t i = 0; i < a.kv.size(); ++i) {
    ASSERT_EQ(a.kv[i].pages.size(), b.kv[i].pages.size());
    for (size_t p = 0; p < a.kv[i].pages.size(); ++p) {
      EXPECT_TRUE(same(a.kv[i].pages[p], b.kv[i].pages[p])) << "keys and values " << i << ", page " << p;
    }
  }
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : all_isas()) {
    if (cpu_features().supports(isa)) isas.push_back(isa);
  }
  return isas;
}

// ---- accuracy
// -----------------------------------------------------------------------------------------------------

struct Pocket {
  std::string name, model, golden;
};

std::string pocket_name(const testing::TestParamInfo<Pocket>& pocket) {
  return pocket.param.name;
}

class PocketQwenOnCpu : public testing::TestWithParam<Pocket> {
 protected:
  void SetUp() override {
    for (const std::string& path : {GetParam().model, GetParam().golden}) {
      if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    }
  }
};

// Activations of 8 bits carry an error of about 0.5 % of a row's size into every product; over eight layers
// it comes to about 2 % of the logits, which reach 27. So where the golden's best token leads by 2, ours must
// be the same.
TEST_P(PocketQwenOnCpu, teacher_forced_logits_stay_near_the_golden) {
  const Golden golden(GetParam().golden);
  CpuModel cpu(GetParam().model, 2, cpu_features().best_isa(), {.max_rows = 512, .max_wanted = 512});
  ASSERT_NE(cpu.model, nullptr);
  const auto vocabulary = static_cast<size_t>(cpu.model->config().vocabulary);
  int clear_rows = 0;
  for (int k = 0; k < 6; ++k) {
    SequenceState state = new_sequence(*cpu.model);
    auto ids = golden.ints("prompt." + std::to_string(k));
    const auto answer = golden.ints("greedy." + std::to_string(k));
    const auto expected = golden.floats("logits." + std::to_string(k));
    for (size_t i = 0; ids.size() < expected.size() / vocabulary; ++i) ids.push_back(answer[i]);
    const auto logits = run_pass(*cpu.model, state, ids);
    EXPECT_LE(relative_rms(logits, expected), 0.03) << "prompt " << k;
    for (size_t r = 0; r < ids.size(); ++r) {
      std::vector<float> row(&expected[r * vocabulary], &expected[(r + 1) * vocabulary]);
      const int32_t best = argmax(row);
      std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
      if (row[0] - row[1] < 2.0f) continue;
      ++clear_rows;
      EXPECT_EQ(argmax({&logits[r * vocabulary], vocabulary}), best) << "prompt " << k << ", row " << r;
    }
  }
  EXPECT_GE(clear_rows, 90);
}

TEST_P(PocketQwenOnCpu, greedy_answers_equal_the_golden_on_at_least_38_of_40_prompts) {
  const Golden golden(GetParam().golden);
  CpuModel cpu(GetParam().model, 2, cpu_features().best_isa(), {.max_rows = 512, .max_wanted = 1});
  ASSERT_NE(cpu.model, nullptr);
  int equal = 0;
  for (int k = 0; k < 40; ++k) {
    const auto expected = golden.ints("greedy." + std::to_string(k));
    const auto found = greedy(*cpu.model, golden.ints("prompt." + std::to_string(k)), 128, kStops);
    equal += found == expected;
    if (found == expected) continue;
    const auto gaps = golden.floats("gap." + std::to_string(k));
    const size_t at = static_cast<size_t>(
        std::mismatch(found.begin(), found.end(), expected.begin(), expected.end()).second -
        expected.begin());
    std::cout << "prompt " << k << " parts at step " << at << ", where the golden's gap is "
              << (at < gaps.size() ? gaps[at] : 0.0f) << "\n";
  }
  EXPECT_GE(equal, 38);
}

INSTANTIATE_TEST_SUITE_P(layouts, PocketQwenOnCpu,
                         testing::Values(Pocket{"mlx_4bit", kPocket,
                                                "tests/data/pocket/qwen-mlx-4bit.safetensors"},
                                         Pocket{"hf", "../shared/models/pocket-qwen/hf",
                                                "../shared/models/pocket-qwen/hf/golden.safetensors"}),
                         pocket_name);

std::string layout_name(const testing::TestParamInfo<std::string>& layout) {
  std::string name = layout.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class TinyQwenOnCpu : public testing::TestWithParam<std::string> {};

// The tiny model's sharp random gains magnify rounding; the bound tells a mistake (1.4e-2 to 1 in float32)
// from noise only together with the per-step tests of the kernels.
TEST_P(TinyQwenOnCpu, logits_stay_near_the_golden_in_every_layout) {
  const Golden golden(kTiny + GetParam() + "/golden.safetensors");
  CpuModel cpu(kTiny + GetParam(), 2, cpu_features().best_isa(), {.max_rows = 130, .max_wanted = 130});
  ASSERT_NE(cpu.model, nullptr);
  for (const int length : {1, 5, 63, 64, 65, 130}) {
    SequenceState state = new_sequence(*cpu.model);
    const auto logits = run_pass(*cpu.model, state, golden.ints("ids." + std::to_string(length)));
    const auto expected = golden.floats("logits." + std::to_string(length));
    const double error = relative_rms(last(logits, expected.size()), expected);
    EXPECT_LE(error, 0.1) << "T = " << length;
  }
}

INSTANTIATE_TEST_SUITE_P(layouts, TinyQwenOnCpu, testing::Values("hf", "mlx-4bit", "mlx-mixed"), layout_name);

// ---- the same bits
// ------------------------------------------------------------------------------------------------

class CutQwen : public testing::TestWithParam<std::string> {};

TEST_P(CutQwen, any_chunking_gives_the_same_bits) {
  CpuModel cpu(GetParam(), 2, cpu_features().best_isa(), {.max_rows = 300, .max_wanted = 300});
  ASSERT_NE(cpu.model, nullptr);
  std::mt19937 rng(1);
  const Tokens tokens = random_tokens(300, rng);
  SequenceState whole = new_sequence(*cpu.model);
  const auto expected = run_pass(*cpu.model, whole, tokens);
  for (int round = 0; round < 5; ++round) {
    SequenceState state = new_sequence(*cpu.model);
    const auto cuts = round == 0 ? std::vector<size_t>(tokens.size(), 1) : random_cuts(tokens.size(), rng);
    EXPECT_EQ(run_cut(*cpu.model, state, tokens, cuts), expected) << "round " << round;
    expect_same_state(state, whole);
  }
}

TEST_P(CutQwen, any_thread_count_gives_the_same_bits) {
  std::mt19937 rng(2);
  const Tokens tokens = random_tokens(80, rng);
  const std::vector<size_t> cuts{1, 60, 2, 9, 1, 7};
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 5}) {
    CpuModel cpu(GetParam(), threads, cpu_features().best_isa(), {.max_rows = 80, .max_wanted = 80});
    ASSERT_NE(cpu.model, nullptr);
    SequenceState state = new_sequence(*cpu.model);
    const auto logits = run_cut(*cpu.model, state, tokens, cuts);
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected) << threads << " threads";
  }
}

TEST_P(CutQwen, every_instruction_set_gives_the_same_bits) {
  std::mt19937 rng(3);
  const Tokens tokens = random_tokens(40, rng);
  const std::vector<size_t> cuts{1, 36, 3};
  std::vector<float> expected;
  for (const Isa isa : supported_isas()) {
    CpuModel cpu(GetParam(), 2, isa, {.max_rows = 40, .max_wanted = 40});
    ASSERT_NE(cpu.model, nullptr);
    SequenceState state = new_sequence(*cpu.model);
    const auto logits = run_cut(*cpu.model, state, tokens, cuts);
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected) << isa_name(isa);
  }
}

TEST_P(CutQwen, neighbours_in_the_batch_change_nothing) {
  CpuModel cpu(GetParam(), 2, cpu_features().best_isa(), {.max_rows = 64, .max_wanted = 64});
  ASSERT_NE(cpu.model, nullptr);
  std::mt19937 rng(4);
  const std::vector<size_t> first{7, 30, 1}, then{1, 1, 5};
  const size_t vocabulary = static_cast<size_t>(cpu.model->config().vocabulary);

  std::vector<SequenceState> together;
  std::vector<Tokens> prompts;
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < first.size(); ++i) {
    prompts.push_back(random_tokens(first[i] + then[i], rng));
    together.push_back(new_sequence(*cpu.model));
    SequenceState alone = new_sequence(*cpu.model);
    const std::vector<size_t> cuts{first[i], then[i]};
    expected.push_back(run_cut(*cpu.model, alone, prompts[i], cuts));
  }
  std::vector<std::vector<float>> found(prompts.size());
  for (const auto* sizes : {&first, &then}) {
    Tokens rows;
    std::vector<Segment> segments;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto start = prompts[i].begin() + together[i].position;
      segments.push_back(
          {&together[i], static_cast<int64_t>(rows.size()), static_cast<int64_t>((*sizes)[i])});
      rows.insert(rows.end(), start, start + static_cast<int64_t>((*sizes)[i]));
    }
    std::vector<int32_t> wanted(rows.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    const auto logits = cpu.model->run({rows, segments, wanted});
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto part = logits->subspan(static_cast<size_t>(segments[i].first_row) * vocabulary,
                                        static_cast<size_t>(segments[i].rows) * vocabulary);
      found[i].insert(found[i].end(), part.begin(), part.end());
    }
  }
  EXPECT_EQ(found, expected);
}

TEST_P(CutQwen, a_copied_sequence_goes_on_like_the_original) {
  CpuModel cpu(GetParam(), 2, cpu_features().best_isa(), {.max_rows = 64, .max_wanted = 64});
  ASSERT_NE(cpu.model, nullptr);
  std::mt19937 rng(5);
  const Tokens tokens = random_tokens(50, rng);
  SequenceState original = new_sequence(*cpu.model);
  run_pass(*cpu.model, original, std::span(tokens).first(40));
  auto copy = cpu.model->copy(original);
  ASSERT_TRUE(copy.ok());
  const auto expected = run_pass(*cpu.model, original, std::span(tokens).last(10));
  EXPECT_EQ(run_pass(*cpu.model, *copy, std::span(tokens).last(10)), expected);
  expect_same_state(*copy, original);
}

std::string model_name(const testing::TestParamInfo<std::string>& model) {
  const char* names[] = {"pocket", "tiny_hf", "tiny_mixed"};
  return names[model.index];
}

INSTANTIATE_TEST_SUITE_P(models, CutQwen, testing::Values(kPocket, kTiny + "hf", kTiny + "mlx-mixed"),
                         model_name);

// ---- refusals
// -----------------------------------------------------------------------------------------------------

TEST(QwenModel, refuses_batches_that_it_cannot_run_and_stays_usable) {
  CpuModel cpu(kPocket, 1, cpu_features().best_isa(), {.max_rows = 8, .max_wanted = 1});
  ASSERT_NE(cpu.model, nullptr);
  SequenceState state = new_sequence(*cpu.model);
  const auto try_run = [&](const Tokens& tokens, const Tokens& wanted) {
    const Segment segment{&state, 0, static_cast<int64_t>(tokens.size())};
    return cpu.model->run({tokens, {&segment, 1}, wanted});
  };
  for (const auto& bad : {try_run({}, {}), try_run(Tokens(9, 1), {0}), try_run({1, 2}, {0, 1}),
                          try_run({-1}, {0}), try_run({1408}, {0})}) {
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(state.position, 0);
  state.position = cpu.model->config().context;
  EXPECT_FALSE(try_run({1}, {0}).ok());
  state.position = 0;
  EXPECT_TRUE(try_run({1, 2, 3}, {2}).ok());
  EXPECT_EQ(state.position, 3);
}

}  // namespace
}  // namespace weir::test
