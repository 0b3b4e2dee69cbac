#include "kernels/reference/reference_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernels/reference/attention.h"
#include "kernels/reference/diffusion_steps.h"
#include "kernels/reference/packed.h"

namespace weir {
namespace {

using namespace reference;

class ReferenceSteps final : public Steps {
 public:
  explicit ReferenceSteps(StageProbe probe) : probe_(std::move(probe)) {}

  std::string name() const override { return "reference"; }

  Result<Buffer> allocate(size_t bytes) override {
    void* data = std::calloc(std::max<size_t>(bytes, 1), 1);
    if (data == nullptr) {
      return Error{Code::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes", ""};
    }
    return Buffer(data, bytes, [](void* p, size_t) { std::free(p); });
  }
  void copy_in(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  size_t kv_page_bytes(const AttentionWeights& w) const override { return reference::kv_page_bytes(w); }
  Status reserve(const Limits&) override { return {}; }

  Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use) override {
    return std::unique_ptr<Linear>(std::make_unique<StackedLinear>(std::vector(parts.begin(), parts.end())));
  }
  Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) override {
    return std::unique_ptr<Experts>(
        std::make_unique<ExpertViews>(std::vector(experts.begin(), experts.end())));
  }
  Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) override {
    return std::unique_ptr<Embedding>(std::make_unique<EmbeddingView>(matrix));
  }

  void begin(const Batch&) override {}

  void embed(Rows x, const Batch& batch, const Embedding& embedding) override {
    const Matrix& matrix = static_cast<const EmbeddingView&>(embedding).matrix;
    for (int64_t t = 0; t < x.rows; ++t) decode_row(matrix, batch.tokens[static_cast<size_t>(t)], x.row(t));
  }

  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override {
    multiply_stacked(out, norm_rows(x, gain, epsilon), w);
  }

  void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
              int64_t index) override {
    reference::attend(mixed, projected, w, batch, index, probe_);
  }

  void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                  int64_t index) override {
    reference::delta_rule(mixed, projected, w, batch, index, probe_);
  }

  void project_add(Rows x, Rows mixed, const Linear& w) override {
    std::vector<float> memory(static_cast<size_t>(x.rows * x.cols));
    const Rows out{memory.data(), x.rows, x.cols};
    multiply_stacked(out, mixed, w);
    for (size_t i = 0; i < memory.size(); ++i) x.floats()[i] += memory[i];
  }

  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override {
    std::vector<float> memory(static_cast<size_t>(x.rows * w.router->rows()));
    const Rows logits{memory.data(), x.rows, w.router->rows()};
    for (int64_t t = 0; t < x.rows; ++t) rms_norm(normed.row(t), x.row(t), gain.floats(), x.cols, epsilon);
    multiply_stacked(logits, normed, *w.router);
    for (int64_t t = 0; t < x.rows; ++t) route_row(routing, t, logits.row(t), w);
  }

  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override {
    activate_experts(activated, normed, routing, w);
  }

  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override {
    add_experts(x, activated, routing, w);
  }

  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override {
    for (size_t i = 0; i < batch.wanted.size(); ++i) {
      const Rows row{x.row(batch.wanted[i]), 1, x.cols};
      multiply_stacked({logits.row(static_cast<int64_t>(i)), 1, logits.cols}, norm_rows(row, gain, epsilon),
                       head);
    }
  }

  DiffusionSteps* diffusion() override { return &diffusion_; }
  Status finish() override { return {}; }

 private:
  Rows norm_rows(Rows x, const Vector& gain, float epsilon) {
    normed_.resize(static_cast<size_t>(x.rows * x.cols));
    const Rows normed{normed_.data(), x.rows, x.cols};
    for (int64_t t = 0; t < x.rows; ++t) {
      rms_norm(normed.row(t), x.row(t), gain.floats(), x.cols, epsilon);
      if (probe_) probe_("normed", {normed.row(t), static_cast<size_t>(x.cols)});
    }
    return normed;
  }

  static void route_row(Routing routing, int64_t t, const float* logits, const MoeWeights& w) {
    int32_t* experts = routing.experts + t * routing.slots;
    float* weights = routing.weights + t * routing.slots;
    choose_experts(experts, weights, logits, w);
    experts[w.top_k] = static_cast<int32_t>(w.experts);
    weights[w.top_k] = static_cast<float>(sigmoid(logits[w.experts]));
  }

  StageProbe probe_;
  ReferenceDiffusionSteps diffusion_{probe_};
  std::vector<float> normed_;
};

}  // namespace

std::unique_ptr<Steps> make_reference_steps(StageProbe probe) {
  return std::make_unique<ReferenceSteps>(std::move(probe));
}

}  // namespace weir
