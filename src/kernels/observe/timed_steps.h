// Measures a pass step by step: how long each kind of step took and how many bytes it had to move.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/observe/forwarding_steps.h"

namespace weir {

// Sums over the calls of one kind of step. `bytes` are those that any implementation must move: the weights
// that are touched, states read and written, keys and values read, activations read and written.
struct StepCost {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  uint64_t bytes = 0;
};

class TimedSteps final : public ForwardingSteps {
 public:
  explicit TimedSteps(std::unique_ptr<Steps> inner) : ForwardingSteps(std::move(inner)) {}

  // In the order in which the kinds first occurred.
  const std::vector<StepCost>& costs() const { return costs_; }
  void reset() { costs_.clear(); }

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
  Status finish() override;

 private:
  // Runs `step` and waits for it; the clock covers both.
  template <class Step>
  void time(const char* name, uint64_t bytes, const Step& step);
  std::vector<int32_t> distinct_experts(Routing routing);

  std::vector<StepCost> costs_;
  Status first_error_;
};

}  // namespace weir
