// The CPU's steps of block diffusion. They share pool, kernels and products with its other steps, and round
// as those do (cpu_steps.h).
#pragma once

#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/products.h"
#include "kernels/diffusion_steps.h"

namespace weir::cpu {

class CpuDiffusionSteps final : public DiffusionSteps {
 public:
  // `products` and `pool` outlive this.
  CpuDiffusionSteps(Products& products, ThreadPool& pool, std::string isa);

  Status reserve(const Limits& limits) override;
  Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale) override;
  size_t kv_page_bytes(const WindowedAttentionWeights& w) const override;

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
  const CpuKernels& kernels() const { return products_.kernels(); }
  Rows scratch_rows(int64_t rows, int64_t cols) const { return {scratch_.data(), rows, cols}; }

  Products& products_;
  ThreadPool& pool_;
  std::string isa_;
  Head head_;
  Buffer scratch_;            // [T, widest]: a product before its norm or activation
  Buffer attention_scratch_;  // window_attention.h
};

}  // namespace weir::cpu
