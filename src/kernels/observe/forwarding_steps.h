// Steps that hand every call on to other steps: the base of whatever watches a pass from outside.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kernels/steps.h"

namespace weir {

class ForwardingSteps : public Steps {
 public:
  explicit ForwardingSteps(std::unique_ptr<Steps> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }

  Result<Buffer> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void copy_in(void* to, const void* from, size_t bytes) override { inner_->copy_in(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes) override { inner_->copy_out(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { inner_->copy(to, from, bytes); }
  Dtype activation_dtype() const override { return inner_->activation_dtype(); }
  size_t kv_page_bytes(const AttentionWeights& w) const override { return inner_->kv_page_bytes(w); }
  Status reserve(const Limits& limits) override { return inner_->reserve(limits); }

  Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use use) override {
    return inner_->pack(parts, use);
  }
  Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) override {
    return inner_->pack_experts(experts);
  }
  Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) override {
    return inner_->pack_embedding(matrix);
  }

  void begin(const Batch& batch) override { inner_->begin(batch); }
  void embed(Rows x, const Batch& batch, const Embedding& embedding) override {
    inner_->embed(x, batch, embedding);
  }
  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override {
    inner_->norm_project(out, x, gain, epsilon, w);
  }
  void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
              int64_t index) override {
    inner_->attend(mixed, projected, w, batch, index);
  }
  void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                  int64_t index) override {
    inner_->delta_rule(mixed, projected, w, batch, index);
  }
  void project_add(Rows x, Rows mixed, const Linear& w) override { inner_->project_add(x, mixed, w); }
  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override {
    inner_->norm_route(normed, routing, x, gain, epsilon, w);
  }
  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override {
    inner_->experts_up(activated, normed, routing, w);
  }
  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override {
    inner_->experts_down_add(x, activated, routing, w);
  }
  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override {
    inner_->norm_head(logits, x, gain, epsilon, head, batch);
  }
  DiffusionSteps* diffusion() override { return inner_->diffusion(); }
  Result<std::unique_ptr<TokenChooser>> make_chooser(const ChoiceRules& rules,
                                                     std::span<const int32_t> prompt) override {
    return inner_->make_chooser(rules, prompt);
  }
  Status finish() override { return inner_->finish(); }

 protected:
  Steps& inner() { return *inner_; }

 private:
  std::unique_ptr<Steps> inner_;
};

}  // namespace weir
