// What the CPU's head finds out about one row of logits, against float64: entropy, probabilities, the two
// largest, the draw, the K largest.
#include <map>

#include "kernels/cpu/row_belief.h"
#include "kernels/cpu/top_tokens.h"
#include "kernels/cpu_head_support.h"

namespace weir::test {
namespace {

constexpr float kSoftcap = 30;

// A row's panels, weighed by one instruction set.
struct WeighedRow {
  WeighedRow(const cpu::CpuKernels& kernels, const std::vector<float>& z, float temperature) {
    const int64_t count = static_cast<int64_t>(z.size());
    const int64_t panels = (count + cpu::kHeadPanel - 1) / cpu::kHeadPanel;
    y = z;
    y.resize(static_cast<size_t>(panels * cpu::kHeadPanel), std::numeric_limits<float>::quiet_NaN());
    w = poisoned(panels * cpu::kHeadPanel);
    for (int64_t i = 0; i < panels; ++i) {
      cpu::WeighedPanel panel;
      panel.index = i;
      panel.count = std::min(cpu::kHeadPanel, count - i * cpu::kHeadPanel);
      panel.y = y.data() + i * cpu::kHeadPanel;
      panel.w = w.data() + i * cpu::kHeadPanel;
      panel.sums = kernels.head.weigh_panel(y.data() + i * cpu::kHeadPanel, w.data() + i * cpu::kHeadPanel,
                                            panel.count, {1 / kSoftcap, kSoftcap / temperature});
      all.push_back(panel);
    }
    y_of_tokens = {y.begin(), y.begin() + count};
  }
  WeighedRow(const WeighedRow&) = delete;
  WeighedRow& operator=(const WeighedRow&) = delete;

  Belief belief(const DrawKey& key) const {
    cpu::RowBelief row;
    for (const cpu::WeighedPanel& panel : all) row.add(panel, key);
    return row.finish();
  }

  std::vector<float> y, w, y_of_tokens;
  std::vector<cpu::WeighedPanel> all;
};

struct Logits {
  std::string name;
  std::vector<float> z;
};

std::vector<Logits> logits() {
  Random random(1);
  std::vector<Logits> all;
  for (const int64_t count : {512, 1000, 1024, 5003}) {
    const std::string size = " of " + std::to_string(count);
    const auto n = static_cast<size_t>(count);
    all.push_back({"wide" + size, random.floats(count, -40, 40)});
    all.push_back({"narrow" + size, random.floats(count, -1, 1)});
    all.push_back({"equal" + size, std::vector<float>(n, 3.0f)});
    // From certainty to two thirds: entropies from 0 on.
    for (const float top : {200.0f, 40.0f, 25.0f, 18.0f, 12.0f, 8.0f}) {
      std::vector<float> z = random.floats(count, -6, 2);
      z[n * 2 / 3] = top;
      all.push_back({"peak " + std::to_string(top) + size, z});
      z[n / 3] = top - 0.25f;
      all.push_back({"two peaks " + std::to_string(top) + size, z});
    }
  }
  std::vector<float> large = random.floats(262144, -20, 10);
  for (size_t i = 0; i < large.size(); i += 997) large[i] += 8;
  all.push_back({"262144", std::move(large)});
  return all;
}

TEST(CpuRowBelief, EntropyIsWithin1e5AndProbabilitiesWithin1e5OfTheirValue) {
  for (const Logits& l : logits()) {
    for (const float temperature : {0.4f, 0.7f, 1.0f}) {
      SCOPED_TRACE(l.name + " at " + std::to_string(temperature));
      const Distribution want = distribution(l.z, kSoftcap, temperature);
      const Belief got = WeighedRow(best_kernels(), l.z, temperature).belief({});
      EXPECT_NEAR(got.entropy, want.entropy, 1e-5);
      EXPECT_NEAR(got.best_probability, want.p[static_cast<size_t>(got.best)], 2e-5 * got.best_probability);
      EXPECT_NEAR(got.second_probability, want.p[static_cast<size_t>(got.second)],
                  2e-5 * got.second_probability);
    }
  }
}

TEST(CpuRowBelief, BestAndSecondAreTheFirstOfAFullSort) {
  for (const Logits& l : logits()) {
    SCOPED_TRACE(l.name);
    const WeighedRow row(best_kernels(), l.z, 1);
    const std::vector<int32_t> order = ranked(row.y_of_tokens);
    const Belief got = row.belief({});
    EXPECT_EQ(got.best, order[0]);
    EXPECT_EQ(got.second, order[1]);
  }
}

TEST(CpuRowBelief, EqualLargestGoToTheLowerIdsWhereverTheyStand) {
  const std::vector<std::vector<size_t>> places = {{0, 1}, {17, 300}, {255, 256}, {100, 101, 699}, {5, 6, 7}};
  for (const auto& place : places) {
    std::vector<float> z(700, -1.0f);
    for (const size_t at : place) z[at] = 5;
    const Belief got = WeighedRow(best_kernels(), z, 0.5f).belief({});
    EXPECT_EQ(got.best, static_cast<int32_t>(place[0]));
    EXPECT_EQ(got.second, static_cast<int32_t>(place[1]));
  }
  std::vector<float> z(700, -1.0f);
  z[650] = 5;
  EXPECT_EQ(WeighedRow(best_kernels(), z, 0.5f).belief({}).second, 0);
}

TEST(CpuRowBelief, LogitsThatAreNaNGiveNaNsAndTokensOfTheVocabulary) {
  std::vector<float> z(600, 1.0f);
  z[300] = std::numeric_limits<float>::quiet_NaN();
  const Belief got = WeighedRow(best_kernels(), z, 1).belief({});
  EXPECT_TRUE(std::isnan(got.entropy));
  EXPECT_TRUE(std::isnan(got.best_probability));
  for (const int32_t token : {got.best, got.second, got.sampled}) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 600);
  }
}

TEST(CpuRowBelief, DrawsFollowTheStatedRule) {
  for (const Logits& l : logits()) {
    if (l.z.size() > 10000) continue;
    SCOPED_TRACE(l.name);
    const Distribution d = distribution(l.z, kSoftcap, 0.6);
    const WeighedRow row(best_kernels(), l.z, 0.6f);
    for (uint32_t position = 0; position < 40; ++position) {
      const DrawKey key{99, 3, 7, position};
      ASSERT_EQ(row.belief(key).sampled, drawn_token(d, key)) << "position " << position;
    }
  }
}

TEST(CpuRowBelief, DrawsHaveTheFrequenciesOfTheDistribution) {
  constexpr uint32_t kDraws = 60000;
  Random random(2);
  std::vector<float> z = random.floats(700, -6, 1);
  z[40] = 4;
  z[41] = 3;
  z[500] = 4.5f;
  z[699] = 2;
  const Distribution d = distribution(z, kSoftcap, 0.8);
  const WeighedRow row(best_kernels(), z, 0.8f);
  std::map<int32_t, double> seen;
  for (uint32_t step = 0; step < kDraws; ++step) ++seen[row.belief({5, 0, step, step % 13}).sampled];
  double chi = 0, rare = 0, rare_seen = 0;
  int cells = 0;
  for (size_t v = 0; v < z.size(); ++v) {
    const double expected = d.p[v] * kDraws, count = seen[static_cast<int32_t>(v)];
    if (expected < 20) {
      rare += expected;
      rare_seen += count;
      continue;
    }
    chi += (count - expected) * (count - expected) / expected;
    ++cells;
  }
  chi += (rare_seen - rare) * (rare_seen - rare) / rare;
  ASSERT_GT(cells, 100);
  EXPECT_LT(chi, cells + 4 * std::sqrt(2.0 * cells));  // `cells` degrees of freedom
  EXPECT_GT(chi, cells - 4 * std::sqrt(2.0 * cells));
}

TEST(CpuRowBelief, EveryInstructionSetWeighsWithTheSameBits) {
  for (const Logits& l : logits()) {
    SCOPED_TRACE(l.name);
    const WeighedRow first(*kernel_tables().front().kernels, l.z, 0.45f);
    for (const NamedKernels& table : kernel_tables()) {
      const WeighedRow row(*table.kernels, l.z, 0.45f);
      expect_same_bits(row.y, first.y, table.name);
      expect_same_bits(row.w, first.w, table.name);
      for (size_t i = 0; i < row.all.size(); ++i) {
        ASSERT_EQ(std::memcmp(&row.all[i].sums, &first.all[i].sums, sizeof(cpu::PanelSums)), 0) << table.name;
      }
    }
  }
}

TEST(CpuTopTokens, AreTheFirstOfAFullSort) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t count = 1 + random.below(3000);
    const int64_t wanted = 1 + random.below(kMaxSoftTokens);
    const auto levels = static_cast<float>(1 + random.below(trial % 2 == 0 ? 20 : 100000));
    std::vector<float> y(static_cast<size_t>(count));
    for (float& value : y) value = std::floor(random.between(0, levels));
    std::vector<cpu::RankedToken> memory(static_cast<size_t>(wanted));
    cpu::TopTokens top(memory.data(), wanted);
    for (int64_t first = 0; first < count; first += cpu::kHeadPanel) {
      const int64_t n = std::min(cpu::kHeadPanel, count - first);
      const float* panel = y.data() + first;
      top.offer(panel, n, static_cast<int32_t>(first), *std::max_element(panel, panel + n));
    }
    const auto got = top.finish();
    const std::vector<int32_t> want = ranked(y);
    ASSERT_EQ(static_cast<int64_t>(got.size()), std::min(wanted, count));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].id, want[i]) << "rank " << i << " of " << wanted << " of " << count;
      ASSERT_EQ(got[i].y, y[static_cast<size_t>(want[i])]);
    }
  }
}

}  // namespace
}  // namespace weir::test
