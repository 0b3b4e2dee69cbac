// Measures a pass step by step: how long each kind of step took and how many bytes it had to move.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/observe/forwarding_steps.h"
#include "kernels/observe/step_clock.h"
#include "kernels/observe/timed_diffusion_steps.h"

namespace weir {

class TimedSteps final : public ForwardingSteps {
 public:
  explicit TimedSteps(std::unique_ptr<Steps> steps) : ForwardingSteps(std::move(steps)), clock_(inner()) {
    if (inner().diffusion() != nullptr) diffusion_.emplace(*inner().diffusion(), clock_);
  }

  // In the order in which the kinds first occurred.
  const std::vector<StepCost>& costs() const { return clock_.costs(); }
  void reset() { clock_.reset(); }
  // While paused, steps run as without this: waiting after each step costs a GPU more than the steps do.
  void pause(bool paused) { clock_.pause(paused); }

  void embed(Rows x, const Batch& batch, const Embedding& embedding) override;
  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override;
  void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
              int64_t index) override;
  void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                  int64_t index) override;
  void project_add(Rows x, Rows mixed, const Linear& w) override;
  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override;
  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override;
  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override;
  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override;
  DiffusionSteps* diffusion() override { return diffusion_ ? &*diffusion_ : nullptr; }
  Status finish() override;

 private:
  StepClock clock_;
  std::optional<TimedDiffusionSteps> diffusion_;
};

}  // namespace weir
