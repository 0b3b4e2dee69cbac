#include "kernels/cpu/cpu_steps.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_diffusion_steps.h"
#include "kernels/cpu/delta_rule.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/products.h"

namespace weir {
namespace cpu {

const CpuKernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
      break;
    case Isa::kAvx2:
      return avx2::kKernels;
    case Isa::kAvx512:
      return avx512::kKernels;
    case Isa::kAvx512Vnni:
      return avx512_vnni::kKernels;
    case Isa::kAvx512Amx:
      return avx512_amx::kKernels;
  }
#else
  WEIR_CHECK(isa == Isa::kPortable);
#endif
  return portable::kKernels;
}

}  // namespace cpu

namespace {

using namespace cpu;

class CpuSteps final : public Steps {
 public:
  CpuSteps(ThreadPool& pool, Isa isa)
      : pool_(pool),
        isa_(isa),
        products_(kernels_of(isa), pool),
        diffusion_(products_, pool, std::string(isa_name(isa))) {}

  std::string name() const override { return "cpu " + std::string(isa_name(isa_)); }

  Result<Buffer> allocate(size_t bytes) override { return allocate_pages(bytes); }
  void copy_in(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  size_t kv_page_bytes(const AttentionWeights& w) const override { return cpu::kv_page_bytes(w); }

  Status reserve(const Limits& limits) override {
    WEIR_RETURN_IF_ERROR(products_.reserve(limits));
    const size_t attention = attention_scratch_bytes(limits, pool_.threads());
    const size_t delta = delta_rule_scratch_bytes(limits, pool_.threads());
    WEIR_TRY(mixer_scratch_, allocate_pages(std::max(attention, delta)));
    return {};
  }

  Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use use) override {
    return PackedLinear::pack(parts, use, kernels(), isa_text(), pool_);
  }
  Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) override {
    return PackedExperts::pack(experts, kernels(), isa_text(), pool_);
  }
  Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) override {
    return copy_embedding(matrix);
  }

  void begin(const Batch&) override {}

  void embed(Rows x, const Batch& batch, const Embedding& embedding) override {
    const auto& table = static_cast<const EmbeddingTable&>(embedding);
    for_rows(pool_, x.rows,
             [&](int64_t t) { table.look_up(x.row(t), batch.tokens[static_cast<size_t>(t)]); });
  }

  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override {
    const Rows normed = products_.norm(x, gain, epsilon);
    products_.project(out, normed, static_cast<const PackedLinear&>(w));
  }

  void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
              int64_t index) override {
    cpu::attend(mixed, projected, w, batch, index, kernels().attention, pool_, mixer_scratch_.data());
  }

  void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                  int64_t index) override {
    cpu::delta_rule(mixed, projected, w, batch, index, kernels().delta, pool_, mixer_scratch_.data());
  }

  void project_add(Rows x, Rows mixed, const Linear& w) override {
    products_.project_add(x, mixed, static_cast<const PackedLinear&>(w));
  }

  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override {
    products_.norm_into(normed, x, gain, epsilon);
    products_.route(routing, normed, w);
  }

  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override {
    products_.experts_up(activated, normed, routing, w);
  }

  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override {
    products_.experts_down_add(x, activated, routing, w);
  }

  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch& batch) override {
    const Rows normed = products_.norm_wanted(x, batch.wanted, gain, epsilon);
    products_.project(logits, normed, static_cast<const PackedLinear&>(head));
  }

  DiffusionSteps* diffusion() override { return &diffusion_; }

  Status finish() override { return {}; }

 private:
  const CpuKernels& kernels() const { return products_.kernels(); }
  std::string isa_text() const { return std::string(isa_name(isa_)); }

  ThreadPool& pool_;
  Isa isa_;
  Products products_;
  CpuDiffusionSteps diffusion_;
  Buffer mixer_scratch_;  // of attend or delta_rule
};

}  // namespace

Result<std::unique_ptr<Steps>> make_cpu_steps(ThreadPool& pool, Isa isa) {
  if (!cpu_features().supports(isa)) {
    const std::string name(isa_name(isa));
    return Error{Code::kDevice, "this CPU (" + cpu_features().model + ") does not have " + name,
                 "use " + std::string(isa_name(cpu_features().best_isa()))};
  }
  return std::unique_ptr<Steps>(std::make_unique<CpuSteps>(pool, isa));
}

}  // namespace weir
