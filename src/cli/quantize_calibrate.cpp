#include "cli/quantize_calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>

namespace weir::cli {
namespace {

using Energies = std::span<const double>;

double total(Energies energies) {
  return std::accumulate(energies.begin(), energies.end(), 0.0);
}

// Of one input: mean 1, and no column below a hundredth.
void append(std::vector<float>& weights, Energies energies) {
  const double mean = total(energies) / static_cast<double>(energies.size());
  for (const double e : energies) weights.push_back(static_cast<float>(mean > 0 ? e / mean + 0.01 : 1.0));
}

class Collector {
 public:
  explicit Collector(const InputEnergy& energy) : energy_(energy) {}

  // Modules under `prefix` that share one input.
  void add(const std::string& prefix, std::initializer_list<const char*> modules, Energies energies) {
    if (energies.empty()) return;
    std::vector<float> weights;
    append(weights, energies);
    for (const char* module : modules) importance_[prefix + module] = weights;
  }
  void add(const std::string& prefix, std::initializer_list<const char*> modules, const void* matrix) {
    add(prefix, modules, energy_.of(matrix));
  }

  // Stacks of `experts` experts, [experts, cols] of `energies`.
  void add_stack(const std::string& prefix, std::initializer_list<const char*> modules, Energies energies,
                 int64_t experts, int64_t all) {
    if (energies.empty()) return;
    const size_t cols = energies.size() / static_cast<size_t>(all);
    std::vector<double> sum(cols);
    for (size_t i = 0; i < cols * static_cast<size_t>(experts); ++i) sum[i % cols] += energies[i];
    std::vector<float> weights;
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
      const Energies own = energies.subspan(e * cols, cols);
      append(weights, total(own) > 0 ? own : Energies(sum));
    }
    for (const char* module : modules) importance_[prefix + module] = weights;
  }

  Importance take() { return std::move(importance_); }

 private:
  const InputEnergy& energy_;
  Importance importance_;
};

// The one behind the routed ones.
Energies shared_of(Energies energies, int64_t all) {
  const size_t cols = energies.size() / static_cast<size_t>(all);
  return energies.empty() ? energies : energies.last(cols);
}

}  // namespace

Importance importance_of(const qwen::Weights& weights, const InputEnergy& energy) {
  Collector collector(energy);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const qwen::Layer& layer = weights.layers[i];
    const std::string prefix = fmt::format("model.layers.{}.", i), mlp = prefix + "mlp.";
    if (layer.attention) {
      collector.add(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}, layer.attention->in.get());
      collector.add(prefix + "self_attn.", {"o_proj"}, layer.attention->out.get());
    } else {
      collector.add(prefix + "linear_attn.", {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"},
                    layer.delta->in.get());
      collector.add(prefix + "linear_attn.", {"out_proj"}, layer.delta->out.get());
    }
    collector.add(mlp, {"gate", "shared_expert_gate"}, layer.moe.router.get());
    const Experts& experts = *layer.moe.expert;
    const Energies up = energy.of(&experts), down = energy.of_down(experts);
    collector.add_stack(mlp + "switch_mlp.", {"gate_proj", "up_proj"}, up, layer.moe.experts,
                        experts.count());
    collector.add_stack(mlp + "switch_mlp.", {"down_proj"}, down, layer.moe.experts, experts.count());
    collector.add(mlp + "shared_expert.", {"gate_proj", "up_proj"}, shared_of(up, experts.count()));
    collector.add(mlp + "shared_expert.", {"down_proj"}, shared_of(down, experts.count()));
  }
  collector.add("", {"lm_head"}, weights.head.get());
  return collector.take();
}

Importance importance_of(const diffusion_gemma::Weights& weights, const InputEnergy& energy) {
  Collector collector(energy);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const diffusion_gemma::Layer& layer = weights.layers[i];
    const std::string prefix = fmt::format("model.decoder.layers.{}.", i);
    collector.add(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}, layer.attention.in.get());
    collector.add(prefix + "self_attn.", {"o_proj"}, layer.attention.out.get());
    collector.add(prefix + "mlp.", {"gate_proj", "up_proj"}, layer.gate_up.get());
    collector.add(prefix + "mlp.", {"down_proj"}, layer.down.get());
    collector.add(prefix + "router.", {"proj"}, layer.moe.router.get());
    const Experts& experts = *layer.moe.expert;
    collector.add_stack(prefix + "experts.", {"gate_up_proj"}, energy.of(&experts), experts.count(),
                        experts.count());
    collector.add_stack(prefix + "experts.", {"down_proj"}, energy.of_down(experts), experts.count(),
                        experts.count());
  }
  const std::string condition = "model.decoder.self_conditioning.";
  collector.add(condition, {"gate_proj", "up_proj"}, weights.condition.gate_up.get());
  collector.add(condition, {"down_proj"}, weights.condition.down.get());
  collector.add("model.decoder.", {"embed_tokens"}, weights.vocabulary.get());
  return collector.take();
}

}  // namespace weir::cli
