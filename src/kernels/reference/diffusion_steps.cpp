#include "kernels/reference/diffusion_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/reference/head.h"
#include "kernels/reference/packed.h"

namespace weir::reference {
namespace {

struct VocabularyView final : Vocabulary {
  VocabularyView(const Matrix& embedding, float factor) : matrix(embedding), scale(factor) {}

  int64_t rows() const override { return matrix.rows; }
  int64_t cols() const override { return matrix.cols; }
  uint64_t bytes() const override { return matrix.bytes(); }
  std::string kernel() const override { return "reference/vocabulary"; }

  Matrix matrix;
  float scale;
};

// The canvas and slot of a batch's row; no canvas for a causal row.
struct Place {
  const CanvasSegment* segment = nullptr;
  int64_t slot = 0;
};

Place place_of(int64_t row, const CanvasBatch& batch) {
  for (const CanvasSegment& s : batch.canvases) {
    const int64_t r = row - s.first_row;
    if (r >= 0 && r < static_cast<int64_t>(s.slots.size())) return {&s, s.slots[static_cast<size_t>(r)]};
  }
  return {};
}

float* soft_row(const Place& place, int64_t hidden) {
  return place.segment->canvas->soft.floats() + place.slot * hidden;
}

std::vector<float> normed(const float* x, const Vector& gain, float epsilon) {
  std::vector<float> out(static_cast<size_t>(gain.count));
  rms_norm(out.data(), x, gain.floats(), gain.count, epsilon);
  return out;
}

void probe_row(const StageProbe& probe, std::string_view stage, const float* row, int64_t count) {
  if (probe) probe(stage, {row, static_cast<size_t>(count)});
}

}  // namespace

Result<std::unique_ptr<Vocabulary>> ReferenceDiffusionSteps::pack_vocabulary(const Matrix& embedding,
                                                                             float scale) {
  return std::unique_ptr<Vocabulary>(std::make_unique<VocabularyView>(embedding, scale));
}

void ReferenceDiffusionSteps::embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) {
  const auto& view = static_cast<const VocabularyView&>(vocabulary);
  for (int64_t t = 0; t < x.rows; ++t) {
    decode_row(view.matrix, batch.tokens[static_cast<size_t>(t)], x.row(t));
    for (int64_t i = 0; i < x.cols; ++i) x.row(t)[i] *= view.scale;
    probe_row(probe_, "embedding", x.row(t), x.cols);
  }
}

void ReferenceDiffusionSteps::recall(Rows soft, const CanvasBatch& batch) {
  for (int64_t c = 0; c < soft.rows; ++c) {
    std::copy_n(soft_row(place_of(batch.causal_rows() + c, batch), soft.cols), soft.cols, soft.row(c));
    probe_row(probe_, "soft", soft.row(c), soft.cols);
  }
}

void ReferenceDiffusionSteps::norm(Rows out, Rows x, const Vector& gain, float epsilon) {
  for (int64_t t = 0; t < x.rows; ++t) {
    rms_norm(out.row(t), x.row(t), gain.floats(), x.cols, epsilon);
    probe_row(probe_, "norm", out.row(t), x.cols);
  }
}

void ReferenceDiffusionSteps::norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon,
                                         const Linear& gate_up) {
  std::vector<float> both(static_cast<size_t>(gate_up.rows()));
  const auto width = static_cast<size_t>(activated.cols);
  for (int64_t t = 0; t < x.rows; ++t) {
    std::vector<float> in = normed(x.row(t), gain, epsilon);
    probe_row(probe_, "gated_in", in.data(), x.cols);
    multiply_stacked({both.data(), 1, gate_up.rows()}, {in.data(), 1, x.cols}, gate_up);
    for (size_t i = 0; i < width; ++i) {
      activated.row(t)[i] = static_cast<float>(gelu_tanh(both[i]) * both[i + width]);
    }
    probe_row(probe_, "gated", activated.row(t), activated.cols);
  }
}

void ReferenceDiffusionSteps::project(Rows out, Rows in, const Linear& w) {
  multiply_stacked(out, in, w);
  for (int64_t t = 0; t < out.rows; ++t) probe_row(probe_, "project", out.row(t), out.cols);
}

void ReferenceDiffusionSteps::project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain,
                                               float epsilon) {
  std::vector<float> memory(static_cast<size_t>(x.rows * x.cols));
  const Rows out{memory.data(), x.rows, x.cols};
  multiply_stacked(out, mixed, w);
  for (int64_t t = 0; t < x.rows; ++t) {
    const std::vector<float> add = normed(out.row(t), gain, epsilon);
    for (int64_t i = 0; i < x.cols; ++i) x.row(t)[i] += add[static_cast<size_t>(i)];
    probe_row(probe_, "attention", out.row(t), x.cols);
    probe_row(probe_, "attention_normed", add.data(), x.cols);
    probe_row(probe_, "residual", x.row(t), x.cols);
  }
}

void ReferenceDiffusionSteps::route(Routing routing, Rows x, const Vector& gain, float epsilon,
                                    const MoeWeights& w, const Vector& expert_scale) {
  std::vector<float> logits(static_cast<size_t>(w.experts));
  for (int64_t t = 0; t < x.rows; ++t) {
    std::vector<float> in = normed(x.row(t), gain, epsilon);
    multiply_stacked({logits.data(), 1, w.experts}, {in.data(), 1, x.cols}, *w.router);
    int32_t* experts = routing.experts + t * routing.slots;
    float* weights = routing.weights + t * routing.slots;
    choose_experts(experts, weights, logits.data(), w);
    for (int64_t s = 0; s < w.top_k; ++s) weights[s] *= expert_scale.floats()[experts[s]];
    const std::vector<float> ids(experts, experts + w.top_k);
    probe_row(probe_, "router_ids", ids.data(), w.top_k);
    probe_row(probe_, "router_logits", logits.data(), w.experts);
    probe_row(probe_, "router_weights", weights, w.top_k);
  }
}

void ReferenceDiffusionSteps::experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) {
  std::fill_n(out.floats(), out.rows * out.cols, 0.0f);
  add_experts(out, activated, routing, w);
  for (int64_t t = 0; t < out.rows; ++t) probe_row(probe_, "experts_out", out.row(t), out.cols);
}

void ReferenceDiffusionSteps::feed_forward_add(Rows x, Rows dense, Rows experts,
                                               const FeedForwardNorms& norms, float epsilon,
                                               LayerScalars scalars, int64_t causal_rows) {
  for (int64_t t = 0; t < x.rows; ++t) {
    std::vector<float> sum = normed(dense.row(t), norms.dense, epsilon);
    const std::vector<float> routed = normed(experts.row(t), norms.experts, epsilon);
    probe_row(probe_, "mlp_normed", sum.data(), x.cols);
    probe_row(probe_, "experts_normed", routed.data(), x.cols);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += routed[i];
    const std::vector<float> add = normed(sum.data(), norms.sum, epsilon);
    probe_row(probe_, "feedforward_normed", add.data(), x.cols);
    const float scalar = t < causal_rows ? scalars.causal : scalars.canvas;
    for (size_t i = 0; i < sum.size(); ++i) x.row(t)[i] = (x.row(t)[i] + add[i]) * scalar;
    probe_row(probe_, "output", x.row(t), x.cols);
  }
}

void ReferenceDiffusionSteps::norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain,
                                        float epsilon, const Vocabulary& vocabulary, float softcap,
                                        const CanvasBatch& batch) {
  const auto& view = static_cast<const VocabularyView&>(vocabulary);
  std::vector<float> logits(static_cast<size_t>(view.rows()));
  for (size_t i = 0; i < batch.inquiries.size(); ++i) {
    const Inquiry& inquiry = batch.inquiries[i];
    std::vector<float> in = normed(x.row(inquiry.row - first_row), gain, epsilon);
    multiply({logits.data(), 1, view.rows()}, 0, {in.data(), 1, x.cols}, view.matrix);
    for (float& z : logits) z = static_cast<float>(softcap * std::tanh(static_cast<double>(z) / softcap));
    probe_row(probe_, "final", in.data(), x.cols);
    probe_row(probe_, "logits", logits.data(), view.rows());
    std::vector<double> y(logits.size());
    std::transform(logits.begin(), logits.end(), y.begin(), [&](float z) { return z / inquiry.temperature; });
    beliefs[i] = belief_of(y, inquiry.draw);

    const Place place = place_of(inquiry.row, batch);
    if (place.segment == nullptr || inquiry.soft_tokens == 0) continue;
    const std::vector<double> p = kept_probabilities(y, inquiry.soft_tokens);
    std::vector<float> row(static_cast<size_t>(x.cols));
    std::vector<double> sum(row.size());
    for (size_t v = 0; v < p.size(); ++v) {
      if (p[v] == 0) continue;
      decode_row(view.matrix, static_cast<int64_t>(v), row.data());
      for (size_t c = 0; c < row.size(); ++c) sum[c] += p[v] * row[c];
    }
    float* soft = soft_row(place, x.cols);
    for (size_t c = 0; c < sum.size(); ++c) soft[c] = static_cast<float>(sum[c] * view.scale);
  }
}

}  // namespace weir::reference
