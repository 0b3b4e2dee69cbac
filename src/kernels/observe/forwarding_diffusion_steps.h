// Steps of block diffusion that hand every call on to other steps (see forwarding_steps.h).
#pragma once

#include <memory>

#include "kernels/diffusion_steps.h"

namespace weir {

class ForwardingDiffusionSteps : public DiffusionSteps {
 public:
  explicit ForwardingDiffusionSteps(DiffusionSteps& inner) : inner_(inner) {}  // which outlives this

  Status reserve(const Limits& limits) override { return inner_.reserve(limits); }
  Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale) override {
    return inner_.pack_vocabulary(embedding, scale);
  }
  size_t kv_page_bytes(const WindowedAttentionWeights& w) const override { return inner_.kv_page_bytes(w); }

  void embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) override {
    inner_.embed(x, batch, vocabulary);
  }
  void recall(Rows soft, const CanvasBatch& batch) override { inner_.recall(soft, batch); }
  void norm(Rows out, Rows x, const Vector& gain, float epsilon) override {
    inner_.norm(out, x, gain, epsilon);
  }
  void norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon, const Linear& gate_up) override {
    inner_.norm_gated(activated, x, gain, epsilon, gate_up);
  }
  void attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
              int64_t index, bool canvas_only) override {
    inner_.attend(mixed, projected, w, batch, index, canvas_only);
  }
  void project(Rows out, Rows in, const Linear& w) override { inner_.project(out, in, w); }
  void project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain, float epsilon) override {
    inner_.project_norm_add(x, mixed, w, gain, epsilon);
  }
  void route(Routing routing, Rows x, const Vector& gain, float epsilon, const MoeWeights& w,
             const Vector& expert_scale) override {
    inner_.route(routing, x, gain, epsilon, w, expert_scale);
  }
  void experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) override {
    inner_.experts_down(out, activated, routing, w);
  }
  void feed_forward_add(Rows x, Rows dense, Rows experts, const FeedForwardNorms& norms, float epsilon,
                        LayerScalars scalars, int64_t causal_rows) override {
    inner_.feed_forward_add(x, dense, experts, norms, epsilon, scalars, causal_rows);
  }
  void norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                 const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) override {
    inner_.norm_head(beliefs, x, first_row, gain, epsilon, vocabulary, softcap, batch);
  }

 protected:
  DiffusionSteps& inner() { return inner_; }

 private:
  DiffusionSteps& inner_;
};

}  // namespace weir
