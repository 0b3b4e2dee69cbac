#include "device/step_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <set>

#include "base/bf16.h"
#include "device/random_weights.h"
#include "models/qwen/workspace.h"

namespace weir::bench {
namespace {

using qwen::Layer;

// Routing as a near-uniform router gives it: eight different experts a row, then the shared one.
struct RandomRouting {
  std::vector<int32_t> experts;
  std::vector<float> weights;
  int64_t distinct = 0;  // routed experts that occur

  RandomRouting(int64_t rows, int64_t count, int64_t top_k) {
    Random random(7);
    std::set<int32_t> all;
    for (int64_t t = 0; t < rows; ++t) {
      std::set<int32_t> chosen;
      while (static_cast<int64_t>(chosen.size()) < top_k)
        chosen.insert(static_cast<int32_t>(random.below(count)));
      experts.insert(experts.end(), chosen.begin(), chosen.end());
      experts.push_back(static_cast<int32_t>(count));
      weights.insert(weights.end(), static_cast<size_t>(top_k), 0.125f);
      weights.push_back(0.5f);
      all.insert(chosen.begin(), chosen.end());
    }
    distinct = static_cast<int64_t>(all.size());
  }
};

class Bench {
 public:
  Bench(qwen::Model& model, SequenceState& state, int64_t rows, int repeats)
      : model_(model),
        steps_(model.steps()),
        weights_(model.weights()),
        rows_(rows),
        repeats_(repeats),
        tokens_(static_cast<size_t>(rows), 1),
        segment_{&state, 0, rows},
        batch_{tokens_, {&segment_, 1}, wanted_},
        routing_(rows, model.config().experts, model.config().top_k) {}

  std::vector<StepTime> run() {
    auto workspace = qwen::Workspace::make(steps_, model_.config(), rows_, 1);
    if (!workspace.ok()) return {};
    const qwen::Pass pass = workspace->pass(rows_, 1);
    fill(pass);
    const float eps = model_.config().norm_epsilon;
    time_layers("norm_project", is_any, [&](const Layer& l) {
      steps_.norm_project(l.delta ? pass.qkvzba : pass.qkv, pass.x, l.norm_in, eps,
                          l.delta ? *l.delta->in : *l.attention->in);
      return l.delta ? l.delta->in->bytes() : l.attention->in->bytes();
    });
    time_layers("delta_rule", is_delta, [&](const Layer& l) {
      steps_.delta_rule(pass.recalled, pass.qkvzba, *l.delta, batch_, l.index);
      const DeltaWeights& w = *l.delta;
      return static_cast<uint64_t>(2 * w.value_heads * w.key_dim * w.value_dim) * 4;
    });
    time_layers("attend", is_attention, [&](const Layer& l) {
      steps_.attend(pass.attended, pass.qkv, *l.attention, batch_, l.index);
      const int64_t positions = segment_.state->position + rows_;
      return steps_.kv_page_bytes(*l.attention) * static_cast<uint64_t>(positions) / kKvPage;
    });
    time_layers("project_add", is_any, [&](const Layer& l) {
      steps_.project_add(pass.x, l.delta ? pass.recalled : pass.attended,
                         l.delta ? *l.delta->out : *l.attention->out);
      return l.delta ? l.delta->out->bytes() : l.attention->out->bytes();
    });
    time_layers("norm_route", is_any, [&](const Layer& l) {
      steps_.norm_route(pass.normed, pass.routing, pass.x, l.norm_post, eps, l.moe);
      return l.moe.router->bytes();
    });
    steps_.copy_in(pass.routing.experts, routing_.experts.data(), routing_.experts.size() * 4);
    steps_.copy_in(pass.routing.weights, routing_.weights.data(), routing_.weights.size() * 4);
    const auto touched = static_cast<uint64_t>(routing_.distinct + 1);
    time_layers("experts_up", is_any, [&](const Layer& l) {
      steps_.experts_up(pass.activated, pass.normed, pass.routing, l.moe);
      return touched * l.moe.expert->up_bytes(0);
    });
    // As in a pass, where experts_up has read the routing before.
    steps_.experts_up(pass.activated, pass.normed, pass.routing, weights_.layers.front().moe);
    time_layers("experts_down_add", is_any, [&](const Layer& l) {
      steps_.experts_down_add(pass.x, pass.activated, pass.routing, l.moe);
      return touched * l.moe.expert->down_bytes(0);
    });
    measure("norm_head", [&](StepTime& t) {
      steps_.norm_head(pass.logits, pass.x, weights_.norm, eps, *weights_.head, batch_);
      t.bytes = weights_.head->bytes();
      t.calls = 1;
    });
    return times_;
  }

 private:
  static bool is_any(const Layer&) { return true; }
  static bool is_delta(const Layer& l) { return l.delta.has_value(); }
  static bool is_attention(const Layer& l) { return l.attention.has_value(); }

  void fill(const qwen::Pass& pass) {
    Random random(3);
    const auto put = [&](const Rows& rows) {
      const auto values = random.values(rows.rows * rows.cols);
      if (rows.dtype == Dtype::kF32) {
        steps_.copy_in(rows.data, values.data(), values.size() * 4);
        return;
      }
      std::vector<Bf16> halves;
      for (const float v : values) halves.push_back(to_bf16(v));
      steps_.copy_in(rows.data, halves.data(), halves.size() * 2);
    };
    for (const Rows& rows : {pass.x, pass.qkvzba, pass.recalled, pass.normed, pass.activated}) put(rows);
  }

  // All layers that `applies` names; `step` runs one and returns the bytes that it had to move.
  void time_layers(const char* name, const std::function<bool(const Layer&)>& applies,
                   const std::function<uint64_t(const Layer&)>& step) {
    measure(name, [&](StepTime& t) {
      for (const Layer& layer : weights_.layers) {
        if (!applies(layer)) continue;
        t.bytes += step(layer);
        ++t.calls;
      }
    });
  }

  void measure(const char* name, const std::function<void(StepTime&)>& run) {
    constexpr int kWarmUp = 2;
    StepTime t;
    std::vector<double> seconds;
    for (int i = 0; i < repeats_ + kWarmUp; ++i) {
      t = {name, 0, 0, 0};
      steps_.begin(batch_);
      const auto start = std::chrono::steady_clock::now();
      run(t);
      if (const Status status = steps_.finish(); !status.ok()) {
        std::printf("%s: %s\n", name, status.error().message.c_str());
        return;
      }
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (i >= kWarmUp) seconds.push_back(elapsed.count());
    }
    t.seconds = median(seconds);
    times_.push_back(t);
  }

  qwen::Model& model_;
  Steps& steps_;
  const qwen::Weights& weights_;
  int64_t rows_;
  int repeats_;
  std::vector<int32_t> tokens_, wanted_{0};
  Segment segment_;
  Batch batch_;
  RandomRouting routing_;
  std::vector<StepTime> times_;
};

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::vector<StepTime> time_steps(qwen::Model& model, SequenceState& state, int64_t rows, int repeats) {
  return Bench(model, state, rows, repeats).run();
}

}  // namespace weir::bench
