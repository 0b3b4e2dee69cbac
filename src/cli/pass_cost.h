// What one denoising pass costs, by the part of the model and by the kind of layer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/observe/forwarding_steps.h"
#include "kernels/observe/timed_steps.h"
#include "models/diffusion_gemma/config.h"

namespace weir::cli {

// Times each step of a pass, layer by layer.
class LayerSteps final : public ForwardingSteps {
 public:
  explicit LayerSteps(std::unique_ptr<TimedSteps> timed)
      : ForwardingSteps(std::move(timed)), timed_(static_cast<TimedSteps&>(inner())) {}

  void begin(const Batch& batch) override;
  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override;

  // Costs of the last pass: first of what comes before the layers, then of each layer; the head is in the
  // last.
  std::vector<std::vector<StepCost>> parts() const;

 private:
  TimedSteps& timed_;
  std::vector<std::vector<StepCost>> done_;
};

enum class PassPart { kCondition, kAttention, kDense, kExperts, kHead };
inline constexpr size_t kPassParts = 5;
std::string_view pass_part_name(PassPart part);

struct Cost {
  double seconds = 0;
  double bytes = 0;
  double flops = 0;  // of matrices and attention: two for a multiplication and an addition

  Cost& operator+=(const Cost& other);
  friend Cost operator*(double factor, const Cost& cost);
};

using PartCosts = std::array<Cost, kPassParts>;  // by PassPart

Cost sum_of(const PartCosts& parts);

// Costs are additive over layers, and layers of one kind cost the same.
struct PassCost {
  PartCosts fixed, sliding, full;  // outside the layers; in all layers of a kind
  int64_t sliding_layers = 0, full_layers = 0;

  PartCosts total() const;
  // Of a model with other numbers of layers; there is a layer of each kind that is asked for.
  PartCosts with_layers(int64_t sliding_count, int64_t full_count) const;
};

// A pass over slots of one canvas, all of which are asked about.
struct PassShape {
  int64_t rows = 0;
  int64_t committed = 0;
  int32_t soft_tokens = kAllTokens;  // of each row
};

PassCost pass_cost(const std::vector<std::vector<StepCost>>& parts, const diffusion_gemma::Config& config,
                   const PassShape& shape);

}  // namespace weir::cli
