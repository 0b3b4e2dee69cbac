// How large the columns of a model's matrix inputs are: sums of squares over all rows that passed. A weight's
// error costs as much as the input that it is multiplied with. Only for backends whose rows are host memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/observe/forwarding_diffusion_steps.h"
#include "kernels/observe/forwarding_steps.h"

namespace weir {

class InputEnergy {
 public:
  // Of a Linear, a Vocabulary, or an Experts' gate and up; [cols], or [experts, cols]. Empty: nothing passed.
  std::span<const double> of(const void* matrix) const { return find(sums_, matrix); }
  std::span<const double> of_down(const Experts& experts) const { return find(down_, &experts); }

  void add(const void* matrix, Rows rows);
  void add_normed(const void* matrix, Rows x, const Vector& gain, float epsilon);
  // Row t of `normed` goes to the experts of routing[t]; row t * slots + s of `activated` is of the s-th.
  void add_up(const Experts& experts, Rows normed, Routing routing);
  void add_down(const Experts& experts, Rows activated, Routing routing);

 private:
  using Sums = std::map<const void*, std::vector<double>>;

  static std::span<const double> find(const Sums& sums, const void* matrix);
  static void add_row(std::vector<double>& sums, size_t first, const float* row, int64_t cols);

  Sums sums_, down_;
};

class EnergyDiffusionSteps final : public ForwardingDiffusionSteps {
 public:
  // `energy` outlives this.
  EnergyDiffusionSteps(DiffusionSteps& inner, InputEnergy& energy)
      : ForwardingDiffusionSteps(inner), energy_(energy) {}

  void norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon, const Linear& gate_up) override;
  void project(Rows out, Rows in, const Linear& w) override;
  void project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain, float epsilon) override;
  void route(Routing routing, Rows x, const Vector& gain, float epsilon, const MoeWeights& w,
             const Vector& expert_scale) override;
  void experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) override;
  void norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                 const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) override;

 private:
  InputEnergy& energy_;
};

class EnergySteps final : public ForwardingSteps {
 public:
  // `energy` outlives this.
  EnergySteps(std::unique_ptr<Steps> steps, InputEnergy& energy)
      : ForwardingSteps(std::move(steps)), energy_(energy) {
    if (inner().diffusion() != nullptr) diffusion_.emplace(*inner().diffusion(), energy);
  }

  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override;
  void project_add(Rows x, Rows mixed, const Linear& w) override;
  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override;
  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override;
  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override;
  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override;
  DiffusionSteps* diffusion() override { return diffusion_ ? &*diffusion_ : nullptr; }

 private:
  InputEnergy& energy_;
  std::optional<EnergyDiffusionSteps> diffusion_;
};

}  // namespace weir
