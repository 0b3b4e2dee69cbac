// The CUDA backend as its own files know it.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_steps.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pass_table.h"
#include "kernels/cuda/scratch.h"
#include "kernels/steps.h"

namespace weir::cuda {

class Backend final : public Steps {
 public:
  explicit Backend(std::string device) : device_(std::move(device)), staging_(queue_), table_(queue_) {}
  ~Backend() override { cudaStreamSynchronize(queue_.stream()); }

  Status open() { return queue_.open(); }
  std::string name() const override { return "cuda " + device_; }

  Result<Buffer> allocate(size_t bytes) override { return allocate_device(queue_, bytes); }
  void copy_in(void* to, const void* from, size_t bytes) override;
  void copy_out(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  Dtype activation_dtype() const override { return Dtype::kBf16; }
  size_t kv_page_bytes(const AttentionWeights& w) const override {
    return static_cast<size_t>(2 * w.kv_heads * kKvPage * w.head_dim) * 2;
  }
  Status reserve(const Limits& limits) override;

  Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use use) override;
  Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) override;
  Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) override;

  void begin(const Batch& batch) override;
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

  Result<std::unique_ptr<TokenChooser>> make_chooser(const ChoiceRules& rules,
                                                     std::span<const int32_t> prompt) override;
  Status finish() override;

  CudaReport report() const { return {queue_.graphs(), queue_.launches_of_last()}; }

 private:
  friend class Chooser;

  void project_normed(Rows out, Output output, Rows x, const Vector& gain, float epsilon,
                      const int32_t* row_of, const Linear& w);
  Grouping grouping_of(const ExpertsCall& call) const;
  bool supports(const AttentionWeights& w);
  bool supports(const DeltaWeights& w);
  const float* frequencies(const AttentionWeights& w);

  void fail(const Error& error) {
    if (!failure_) failure_ = error;
  }
  Status take_failure();
  // Counts packed weights; where the GPU is full, the error says how much it has taken.
  template <class Packed>
  Result<Packed> counted(Result<Packed> packed, uint64_t (*bytes)(const Packed&));

  std::string device_;
  LaunchQueue queue_;
  Staging staging_;
  PassTable table_;
  Limits limits_;
  Scratch scratch_;
  Buffer frequencies_;
  float theta_ = 0;
  int64_t frequency_count_ = 0;
  const int32_t* settled_routing_ = nullptr;  // what experts_up has read, until it may have changed
  const void* staged_ = nullptr;           // the rows that scratch holds staged, until they may have changed
  const TokenChooser* chooser_ = nullptr;  // whose rules scratch holds
  uint64_t packed_bytes_ = 0;
  std::optional<Error> failure_;
};

}  // namespace weir::cuda
