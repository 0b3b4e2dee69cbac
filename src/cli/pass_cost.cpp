#include "cli/pass_cost.h"

#include <algorithm>
#include <string>

namespace weir::cli {
namespace {

using diffusion_gemma::AttentionShape;
using diffusion_gemma::Config;

Cost& at(PartCosts& costs, PassPart part) {
  return costs[static_cast<size_t>(part)];
}

// Of a step inside the layers, or of the head behind them.
PassPart part_of_step(const std::string& name) {
  if (name == "norm_head") return PassPart::kHead;
  if (name == "norm_project" || name == "attend" || name == "project_norm_add") return PassPart::kAttention;
  if (name == "norm_gated" || name == "project") return PassPart::kDense;
  return PassPart::kExperts;  // with the router, and the sum that ends the layer
}

double product_flops(int64_t rows, int64_t weights) {
  return 2 * static_cast<double>(rows) * static_cast<double>(weights);
}

double attention_flops(const Config& c, const AttentionShape& a, const PassShape& shape) {
  const int64_t in = (c.heads + (a.values_are_keys ? 1 : 2) * a.kv_heads) * a.head_dim;
  const int64_t wide = c.heads * a.head_dim;
  const int64_t seen = a.window == 0 ? shape.committed : std::min(shape.committed, a.window - 1);
  return product_flops(shape.rows, c.hidden * (in + wide)) +
         product_flops(shape.rows, 2 * (seen + c.canvas) * wide);
}

void add_layer_flops(PartCosts& costs, const Config& c, const AttentionShape& a, const PassShape& shape) {
  at(costs, PassPart::kAttention).flops += attention_flops(c, a, shape);
  at(costs, PassPart::kDense).flops += product_flops(shape.rows, 3 * c.dense * c.hidden);
  at(costs, PassPart::kExperts).flops +=
      product_flops(shape.rows, c.hidden * (3 * c.top_k * c.intermediate + c.experts));
}

void add_fixed_flops(PartCosts& costs, const Config& c, const PassShape& shape) {
  at(costs, PassPart::kCondition).flops += product_flops(shape.rows, 3 * c.dense * c.hidden);
  const double vocabulary = product_flops(shape.rows, c.vocabulary * c.hidden);
  at(costs, PassPart::kHead).flops += shape.soft_tokens == kAllTokens ? 2 * vocabulary : vocabulary;
}

Cost measured(const StepCost& step) {
  return {step.seconds, static_cast<double>(step.bytes), 0};
}

}  // namespace

void LayerSteps::begin(const Batch& batch) {
  done_.clear();
  timed_.reset();
  inner().begin(batch);
}

void LayerSteps::norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) {
  done_.push_back(timed_.costs());
  timed_.reset();
  inner().norm_project(out, x, gain, epsilon, w);
}

std::vector<std::vector<StepCost>> LayerSteps::parts() const {
  auto parts = done_;
  parts.push_back(timed_.costs());
  return parts;
}

std::string_view pass_part_name(PassPart part) {
  constexpr std::array<std::string_view, kPassParts> kNames = {"self-conditioning", "attention", "dense MLP",
                                                               "experts", "head"};
  return kNames[static_cast<size_t>(part)];
}

Cost& Cost::operator+=(const Cost& other) {
  seconds += other.seconds;
  bytes += other.bytes;
  flops += other.flops;
  return *this;
}

Cost operator*(double factor, const Cost& cost) {
  return {factor * cost.seconds, factor * cost.bytes, factor * cost.flops};
}

Cost sum_of(const PartCosts& parts) {
  Cost sum;
  for (const Cost& cost : parts) sum += cost;
  return sum;
}

PartCosts PassCost::total() const {
  return with_layers(sliding_layers, full_layers);
}

PartCosts PassCost::with_layers(int64_t sliding_count, int64_t full_count) const {
  PartCosts costs = fixed;
  const auto add = [&](const PartCosts& layers, int64_t have, int64_t want) {
    if (have == 0) return;
    const double factor = static_cast<double>(want) / static_cast<double>(have);
    for (size_t i = 0; i < kPassParts; ++i) costs[i] += factor * layers[i];
  };
  add(sliding, sliding_layers, sliding_count);
  add(full, full_layers, full_count);
  return costs;
}

PassCost pass_cost(const std::vector<std::vector<StepCost>>& parts, const Config& config,
                   const PassShape& shape) {
  PassCost cost;
  for (const StepCost& step : parts.front()) at(cost.fixed, PassPart::kCondition) += measured(step);
  add_fixed_flops(cost.fixed, config, shape);
  for (size_t i = 1; i < parts.size(); ++i) {
    const bool full = config.is_full[i - 1];
    PartCosts& layers = full ? cost.full : cost.sliding;
    ++(full ? cost.full_layers : cost.sliding_layers);
    for (const StepCost& step : parts[i]) {
      const PassPart part = part_of_step(step.name);
      at(part == PassPart::kHead ? cost.fixed : layers, part) += measured(step);
    }
    add_layer_flops(layers, config, full ? config.full : config.sliding, shape);
  }
  return cost;
}

}  // namespace weir::cli
