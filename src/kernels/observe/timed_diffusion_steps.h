// The steps of block diffusion, measured as timed_steps.h says.
#pragma once

#include <memory>

#include "kernels/diffusion_steps.h"
#include "kernels/observe/step_clock.h"

namespace weir {

class TimedDiffusionSteps final : public DiffusionSteps {
 public:
  // Both outlive this.
  TimedDiffusionSteps(DiffusionSteps& inner, StepClock& clock) : inner_(inner), clock_(clock) {}

  Status reserve(const Limits& limits) override { return inner_.reserve(limits); }
  Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale) override {
    return inner_.pack_vocabulary(embedding, scale);
  }
  size_t kv_page_bytes(const WindowedAttentionWeights& w) const override { return inner_.kv_page_bytes(w); }

  void embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) override;
  void recall(Rows soft, const CanvasBatch& batch) override;
  void norm(Rows out, Rows x, const Vector& gain, float epsilon) override;
  void norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon, const Linear& gate_up) override;
  void attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
              int64_t index, bool canvas_only) override;
  void project(Rows out, Rows in, const Linear& w) override;
  void project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain, float epsilon) override;
  void route(Routing routing, Rows x, const Vector& gain, float epsilon, const MoeWeights& w,
             const Vector& expert_scale) override;
  void experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) override;
  void feed_forward_add(Rows x, Rows dense, Rows experts, const FeedForwardNorms& norms, float epsilon,
                        LayerScalars scalars, int64_t causal_rows) override;
  void norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                 const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) override;

 private:
  DiffusionSteps& inner_;
  StepClock& clock_;
};

}  // namespace weir
