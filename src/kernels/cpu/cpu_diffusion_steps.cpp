#include "kernels/cpu/cpu_diffusion_steps.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/kv_page.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/vocabulary.h"
#include "kernels/cpu/window_attention.h"

namespace weir::cpu {

CpuDiffusionSteps::CpuDiffusionSteps(Products& products, ThreadPool& pool, std::string isa)
    : products_(products), pool_(pool), isa_(std::move(isa)), head_(products.kernels(), pool) {}

Status CpuDiffusionSteps::reserve(const Limits& limits) {
  WEIR_RETURN_IF_ERROR(head_.reserve(limits));
  const int64_t floats = limits.rows * std::max(limits.widest, limits.hidden);
  WEIR_TRY(scratch_, allocate_pages(static_cast<size_t>(floats) * sizeof(float)));
  WEIR_TRY(attention_scratch_, allocate_pages(window_scratch_bytes(limits, pool_.threads())));
  return {};
}

Result<std::unique_ptr<Vocabulary>> CpuDiffusionSteps::pack_vocabulary(const Matrix& embedding, float scale) {
  return cpu::pack_vocabulary(embedding, scale, kernels(), isa_, pool_);
}

size_t CpuDiffusionSteps::kv_page_bytes(const WindowedAttentionWeights& w) const {
  return page_bytes(w.kv_heads, w.head_dim);
}

void CpuDiffusionSteps::embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) {
  const auto& table = static_cast<const PackedVocabulary&>(vocabulary);
  for_rows(pool_, x.rows, [&](int64_t t) { table.look_up(x.row(t), batch.tokens[static_cast<size_t>(t)]); });
}

void CpuDiffusionSteps::recall(Rows soft, const CanvasBatch& batch) {
  float* to = soft.floats();
  for (const CanvasSegment& s : batch.canvases) {
    for (const int32_t slot : s.slots) {
      to = std::copy_n(s.canvas->soft.floats() + slot * soft.cols, soft.cols, to);
    }
  }
}

void CpuDiffusionSteps::norm(Rows out, Rows x, const Vector& gain, float epsilon) {
  products_.norm_into(out, x, gain, epsilon);
}

void CpuDiffusionSteps::norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon,
                                   const Linear& gate_up) {
  const Rows both = scratch_rows(x.rows, gate_up.rows());
  products_.project(both, products_.norm(x, gain, epsilon), static_cast<const PackedLinear&>(gate_up));
  for_rows(pool_, x.rows, [&](int64_t t) {
    const float* gate = both.row(t);
    kernels().rows.gelu_multiply(activated.row(t), gate, gate + activated.cols, activated.cols);
  });
}

void CpuDiffusionSteps::attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w,
                               const CanvasBatch& batch, int64_t index, bool canvas_only) {
  attend_window(mixed, projected, w, batch, index, canvas_only, kernels().attention, pool_,
                attention_scratch_.data());
}

void CpuDiffusionSteps::project(Rows out, Rows in, const Linear& w) {
  products_.project(out, in, static_cast<const PackedLinear&>(w));
}

void CpuDiffusionSteps::project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain,
                                         float epsilon) {
  const Rows out = scratch_rows(x.rows, x.cols);
  products_.project(out, mixed, static_cast<const PackedLinear&>(w));
  for_rows(pool_, x.rows, [&](int64_t t) {
    kernels().rows.norm_add(x.row(t), out.row(t), gain.floats(), epsilon, 1.0f, x.cols);
  });
}

void CpuDiffusionSteps::route(Routing routing, Rows x, const Vector& gain, float epsilon, const MoeWeights& w,
                              const Vector& expert_scale) {
  products_.route(routing, products_.norm(x, gain, epsilon), w);
  for (int64_t p = 0; p < routing.rows * routing.slots; ++p) {
    routing.weights[p] *= expert_scale.floats()[routing.experts[p]];
  }
}

void CpuDiffusionSteps::experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) {
  for_rows(pool_, out.rows, [&](int64_t t) { std::fill_n(out.row(t), out.cols, 0.0f); });
  products_.experts_down_add(out, activated, routing, w);
}

void CpuDiffusionSteps::feed_forward_add(Rows x, Rows dense, Rows experts, const FeedForwardNorms& norms,
                                         float epsilon, LayerScalars scalars, int64_t causal_rows) {
  const RowKernels& rows = kernels().rows;
  const Rows sum = scratch_rows(x.rows, x.cols);
  for_rows(pool_, x.rows, [&](int64_t t) {
    rows.rms_norm(sum.row(t), dense.row(t), norms.dense.floats(), epsilon, x.cols);
    rows.norm_add(sum.row(t), experts.row(t), norms.experts.floats(), epsilon, 1.0f, x.cols);
    const float scalar = t < causal_rows ? scalars.causal : scalars.canvas;
    rows.norm_add(x.row(t), sum.row(t), norms.sum.floats(), epsilon, scalar, x.cols);
  });
}

void CpuDiffusionSteps::norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain,
                                  float epsilon, const Vocabulary& vocabulary, float softcap,
                                  const CanvasBatch& batch) {
  head_.run(beliefs, x, first_row, gain, epsilon, static_cast<const PackedVocabulary&>(vocabulary), softcap,
            batch);
}

}  // namespace weir::cpu
