#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/packed.h"

namespace weir::reference {
namespace {

// Where position `p` of KV head `h` lies in the pages.
struct KvView {
  const AttentionWeights& w;
  KvCache& cache;

  float* key(int64_t p, int64_t h) const {
    float* page = cache.pages[static_cast<size_t>(p / kKvPage)].floats();
    return page + ((p % kKvPage) * w.kv_heads + h) * w.head_dim;
  }
  float* value(int64_t p, int64_t h) const { return key(p, h) + kKvPage * w.kv_heads * w.head_dim; }
};

// Rotates the first rotary_dim elements in pairs (i, i + rotary_dim / 2) by position * theta^(-2i /
// rotary_dim).
void rotate(float* head, int64_t position, const AttentionWeights& w) {
  const int64_t half = w.rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(w.rotary_dim);
    const auto frequency = static_cast<float>(std::pow(static_cast<double>(w.rope_theta), exponent));
    const double angle = static_cast<float>(position) * frequency;
    const double c = std::cos(angle), s = std::sin(angle);
    const double a = head[i], b = head[i + half];
    head[i] = static_cast<float>(a * c - b * s);
    head[i + half] = static_cast<float>(b * c + a * s);
  }
}

// out[D] = softmax(q k / sqrt(D)) v over positions [0, count).
void attend_head(float* out, const float* q, int64_t kv_head, int64_t count, const KvView& kv) {
  const int64_t dim = kv.w.head_dim;
  std::vector<double> scores(static_cast<size_t>(count));
  for (int64_t p = 0; p < count; ++p) {
    const float* k = kv.key(p, kv_head);
    double dot = 0;
    for (int64_t i = 0; i < dim; ++i) dot += static_cast<double>(q[i]) * k[i];
    scores[static_cast<size_t>(p)] = dot / std::sqrt(static_cast<double>(dim));
  }
  const double top = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  std::vector<double> sum(static_cast<size_t>(dim));
  for (int64_t p = 0; p < count; ++p) {
    const double weight = std::exp(scores[static_cast<size_t>(p)] - top);
    const float* v = kv.value(p, kv_head);
    total += weight;
    for (int64_t i = 0; i < dim; ++i) sum[static_cast<size_t>(i)] += weight * v[i];
  }
  for (int64_t i = 0; i < dim; ++i) out[i] = static_cast<float>(sum[static_cast<size_t>(i)] / total);
}

void append_kv(const float* keys, const float* values, int64_t position, const KvView& kv) {
  const AttentionWeights& w = kv.w;
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    rms_norm(kv.key(position, h), keys + h * w.head_dim, w.k_norm.floats(), w.head_dim, w.norm_epsilon);
    rotate(kv.key(position, h), position, w);
    std::copy_n(values + h * w.head_dim, w.head_dim, kv.value(position, h));
  }
}

}  // namespace

size_t kv_page_bytes(const AttentionWeights& w) {
  return static_cast<size_t>(2 * kKvPage * w.kv_heads * w.head_dim) * sizeof(float);
}

void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const StageProbe& probe) {
  const int64_t dim = w.head_dim, q_width = 2 * w.heads * dim, kv_width = w.kv_heads * dim;
  std::vector<float> q(static_cast<size_t>(w.heads * dim));
  for (const Segment& segment : batch.segments) {
    const KvView kv{w, segment.state->kv[static_cast<size_t>(index)]};
    for (int64_t r = 0; r < segment.rows; ++r) {
      const int64_t position = segment.state->position + r;
      const float* in = projected.row(segment.first_row + r);
      float* out = mixed.row(segment.first_row + r);
      append_kv(in + q_width, in + q_width + kv_width, position, kv);
      for (int64_t h = 0; h < w.heads; ++h) {
        float* head = q.data() + h * dim;
        rms_norm(head, in + 2 * h * dim, w.q_norm.floats(), dim, w.norm_epsilon);
        rotate(head, position, w);
        attend_head(out + h * dim, head, h / (w.heads / w.kv_heads), position + 1, kv);
      }
      if (probe) {
        const auto width = static_cast<size_t>(kv_width);
        probe("q", q);
        probe("k", {kv.key(position, 0), width});
        probe("v", {kv.value(position, 0), width});
        probe("attention", {out, q.size()});
      }
      for (int64_t h = 0; h < w.heads; ++h) {
        const float* gate = in + (2 * h + 1) * dim;
        for (int64_t i = 0; i < dim; ++i) {
          out[h * dim + i] = static_cast<float>(out[h * dim + i] * sigmoid(gate[i]));
        }
      }
    }
  }
}

}  // namespace weir::reference
