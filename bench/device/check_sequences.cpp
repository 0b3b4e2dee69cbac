// Attention and the delta rule over several passes of two sequences.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "device/check.h"
#include "device/comparison.h"
#include "device/random_weights.h"

namespace weir::bench {
namespace {

// A sequence with one attention and one DeltaNet layer.
SequenceState new_state(Steps& steps, const AttentionWeights* attention, const DeltaWeights* delta,
                        int64_t positions) {
  SequenceState state;
  if (attention != nullptr) {
    state.kv.emplace_back();
    for (int64_t p = 0; p < positions; p += kKvPage) {
      state.kv[0].pages.push_back(std::move(*steps.allocate(steps.kv_page_bytes(*attention))));
    }
  }
  if (delta != nullptr) {
    DeltaState d;
    d.recurrent = std::move(*steps.allocate(static_cast<size_t>(delta->value_heads * 128 * 128) * 4));
    d.conv = std::move(*steps.allocate(static_cast<size_t>(3 * delta->channels()) * 4));
    state.delta.push_back(std::move(d));
  }
  return state;
}

// Two sequences side by side: the passes' rows go to the first one, but for the last third of each pass,
// which goes to the second.
template <class Run>
Outcome run_passes(const Side& side, std::span<const int64_t> passes, SequenceState first,
                   SequenceState second, int64_t width, const std::vector<float>& inputs, int64_t out_width,
                   const Run& run) {
  Outcome outcome;
  size_t at = 0;
  for (const int64_t rows : passes) {
    const std::span<const float> values(inputs.data() + at, static_cast<size_t>(rows * width));
    at += values.size();
    const Guarded in = side.activations(rows, width, values), out = side.activations(rows, out_width);
    const std::vector<int32_t> tokens(static_cast<size_t>(rows), 0);
    const int64_t mine = rows - rows / 3;
    std::vector<Segment> segments{{&first, 0, mine}};
    if (mine < rows) segments.push_back({&second, mine, rows - mine});
    const Batch batch{tokens, segments, {}};
    side.steps.begin(batch);
    run(out.rows(), in.rows(), batch);
    outcome.push_back(out.get());
    for (const Segment& segment : segments) segment.state->position += segment.rows;
  }
  return outcome;
}

}  // namespace

void check_attend(Report& report, Steps& cuda, const ModelShape& s, std::span<const int64_t> passes,
                  uint64_t seed, const std::string& name) {
  Random random(seed);
  const int64_t rows = std::accumulate(passes.begin(), passes.end(), int64_t{0});
  const int64_t width = 2 * (s.heads + s.kv_heads) * 256, out_width = s.heads * 256;
  const auto inputs = random.values(rows * width);
  const auto q_norm = random.values(256, 0.1f, 1.2f), k_norm = random.values(256, 0.1f, 1.2f);
  const std::vector<int64_t> cols(passes.size(), out_width);
  const std::vector<double> bounds(passes.size(), kChainBound);
  compare(
      report, name, cuda,
      [&](const Side& side) {
        AttentionWeights w;
        w.heads = s.heads;
        w.kv_heads = s.kv_heads;
        w.head_dim = 256;
        w.rotary_dim = 64;
        w.rope_theta = 1e7f;
        w.norm_epsilon = 1e-6f;
        w.q_norm = side.vector(q_norm);
        w.k_norm = side.vector(k_norm);
        return run_passes(
            side, passes, new_state(side.steps, &w, nullptr, rows), new_state(side.steps, &w, nullptr, rows),
            width, inputs, out_width,
            [&](Rows out, Rows in, const Batch& batch) { side.steps.attend(out, in, w, batch, 0); });
      },
      cols, bounds);
}

void check_delta_rule(Report& report, Steps& cuda, const ModelShape& s, std::span<const int64_t> passes,
                      uint64_t seed, const std::string& name) {
  Random random(seed);
  const int64_t rows = std::accumulate(passes.begin(), passes.end(), int64_t{0});
  const int64_t channels = (2 * s.key_heads + s.value_heads) * 128;
  const int64_t width = channels + s.value_heads * 130, out_width = s.value_heads * 128;
  const auto inputs = random.values(rows * width);
  const auto conv = random.values(4 * channels, 0.5f), norm = random.values(128, 0.1f, 1.0f);
  const auto dt_bias = random.values(s.value_heads);
  std::vector<float> decay;
  for (int64_t h = 0; h < s.value_heads; ++h) decay.push_back(random.uniform(0.01f, 0.5f));
  // Passes of few rows keep float32 throughout: each row counts by itself. Where keys were rounded, the norm
  // magnifies what is left of a head that cancels, without limit; so a pass counts as a whole.
  const bool few = std::ranges::max(passes) <= 8;
  std::vector<int64_t> cols;
  for (const int64_t pass : passes) cols.push_back(few ? out_width : pass * out_width);
  const std::vector<double> bounds(passes.size(), few ? kRowBound : kRecurrenceBound);
  compare(
      report, name, cuda,
      [&](const Side& side) {
        DeltaWeights w;
        w.key_heads = s.key_heads;
        w.value_heads = s.value_heads;
        w.key_dim = w.value_dim = 128;
        w.taps = 4;
        w.norm_epsilon = 1e-6f;
        w.conv = side.vector(conv);
        w.decay = side.vector(decay);
        w.dt_bias = side.vector(dt_bias);
        w.norm = side.vector(norm);
        return run_passes(
            side, passes, new_state(side.steps, nullptr, &w, 0), new_state(side.steps, nullptr, &w, 0), width,
            inputs, out_width,
            [&](Rows out, Rows in, const Batch& batch) { side.steps.delta_rule(out, in, w, batch, 0); });
      },
      cols, bounds);
}

}  // namespace weir::bench
