// The reference's "packed" weights: views of the checkpoint.
#pragma once

#include <vector>

#include "kernels/steps.h"

namespace weir::reference {

struct StackedLinear final : Linear {
  explicit StackedLinear(std::vector<Matrix> stacked) : parts(std::move(stacked)) {}

  int64_t rows() const override;
  int64_t cols() const override { return parts.front().cols; }
  uint64_t bytes() const override;
  std::string kernel() const override { return "reference/linear"; }

  std::vector<Matrix> parts;
};

struct ExpertViews final : Experts {
  explicit ExpertViews(std::vector<ExpertSource> experts) : sources(std::move(experts)) {}

  int64_t count() const override { return static_cast<int64_t>(sources.size()); }
  int64_t hidden() const override { return sources.front().gate.cols; }
  int64_t intermediate() const override { return sources.front().gate.rows; }
  uint64_t up_bytes(int64_t expert) const override;
  uint64_t down_bytes(int64_t expert) const override;
  std::string kernel() const override { return "reference/experts"; }

  std::vector<ExpertSource> sources;
};

struct EmbeddingView final : Embedding {
  explicit EmbeddingView(const Matrix& source) : matrix(source) {}

  int64_t rows() const override { return matrix.rows; }
  int64_t cols() const override { return matrix.cols; }
  uint64_t row_bytes() const override { return matrix.bytes() / static_cast<uint64_t>(matrix.rows); }

  Matrix matrix;
};

// out[t, first_col + r] = sum over c of w[r, c] * x[t, c], for all rows r of `w`.
void multiply(Rows out, int64_t first_col, Rows x, const Matrix& w);

// The same with all parts of a stacked matrix side by side.
void multiply_stacked(Rows out, Rows x, const Linear& w);

// The top_k experts of one row's logits, ties to the lower id, and their renormalised softmax weights.
void choose_experts(int32_t* experts, float* weights, const float* logits, const MoeWeights& w);

// activated[t, s] = f(normed gate_e^T) * (normed up_e^T), expert by expert.
void activate_experts(Rows activated, Rows normed, Routing routing, const MoeWeights& w);

// x[t] += sum over slots of weight * (activated[t, s] down^T), in slot order, rounded once.
void add_experts(Rows x, Rows activated, Routing routing, const MoeWeights& w);

// out[t] = RMSNorm of x[t] over `count` elements, times gain.
void rms_norm(float* out, const float* x, const float* gain, int64_t count, float epsilon);

double sigmoid(double x);
double silu(double x);
double gelu_tanh(double x);

}  // namespace weir::reference
