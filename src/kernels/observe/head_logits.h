// The logits of a diffusion model's head, which no backend ever holds at once: computed beside it from the
// residual stream, in float32 with sums in float64, for measuring what a model believes. Only for backends
// whose residual stream is host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/observe/forwarding_diffusion_steps.h"
#include "kernels/observe/forwarding_steps.h"

namespace weir {

class HeadLogits final : public ForwardingDiffusionSteps {
 public:
  explicit HeadLogits(DiffusionSteps& inner) : ForwardingDiffusionSteps(inner) {}

  // [inquiries, V] of the last pass: softcap tanh(logits / softcap), before any temperature.
  std::span<const float> logits() const { return logits_; }

  // Keeps the embedding in float32, to multiply with it.
  Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale) override;
  void norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                 const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) override;

 private:
  std::vector<float> embedding_;  // [V, H]
  std::vector<float> logits_;
};

// Other steps, with a head whose logits can be seen.
class StepsWithLogits final : public ForwardingSteps {
 public:
  // `steps` have diffusion steps.
  explicit StepsWithLogits(std::unique_ptr<Steps> steps)
      : ForwardingSteps(std::move(steps)), head_(*inner().diffusion()) {}

  DiffusionSteps* diffusion() override { return &head_; }
  const HeadLogits& head() const { return head_; }

 private:
  HeadLogits head_;
};

}  // namespace weir
