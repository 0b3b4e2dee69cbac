#include <algorithm>
#include <cmath>

#include "kernels/reference/diffusion_steps.h"
#include "kernels/reference/packed.h"

namespace weir::reference {
namespace {

// A page holds keys [kKvPage, kv_heads, head_dim], then values.
struct View {
  const WindowedAttentionWeights& w;
  std::vector<Buffer>& pages;

  float* key(int64_t p, int64_t h) const {
    return pages[static_cast<size_t>(p / kKvPage)].floats() + ((p % kKvPage) * w.kv_heads + h) * w.head_dim;
  }
  float* value(int64_t p, int64_t h) const { return key(p, h) + kKvPage * w.kv_heads * w.head_dim; }
};

// Positions [first, end) of one list of pages.
struct Seen {
  View kv;
  int64_t first = 0, end = 0;
};

// The rotation of one position: pair i is (i, i + head_dim / 2).
class Rotation {
 public:
  Rotation(int64_t position, const WindowedAttentionWeights& w) : half_(w.head_dim / 2) {
    for (int64_t i = 0; i < w.rotated_pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(w.head_dim);
      const auto frequency = static_cast<float>(std::pow(static_cast<double>(w.rope_theta), exponent));
      const double angle = static_cast<float>(position) * frequency;
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
    }
  }

  void turn(float* head) const {
    for (size_t i = 0; i < cosines_.size(); ++i) {
      float& first = head[i];
      float& second = head[static_cast<int64_t>(i) + half_];
      const double a = first, b = second;
      first = static_cast<float>(a * cosines_[i] - b * sines_[i]);
      second = static_cast<float>(b * cosines_[i] + a * sines_[i]);
    }
  }

 private:
  int64_t half_;
  std::vector<double> cosines_, sines_;
};

// Keys and values of one row into `slot` of the pages, rotated for `position`.
void store(const float* in, int64_t slot, int64_t position, const View& kv) {
  const WindowedAttentionWeights& w = kv.w;
  const std::vector<float> ones(static_cast<size_t>(w.head_dim), 1.0f);
  const Rotation rotation(position, w);
  const float* keys = in + w.heads * w.head_dim;
  const float* values = w.values_are_keys ? keys : keys + w.kv_heads * w.head_dim;
  for (int64_t h = 0; h < w.kv_heads; ++h) {
    const int64_t at = h * w.head_dim;
    rms_norm(kv.key(slot, h), keys + at, w.k_norm.floats(), w.head_dim, w.norm_epsilon);
    rotation.turn(kv.key(slot, h));
    rms_norm(kv.value(slot, h), values + at, ones.data(), w.head_dim, w.norm_epsilon);
  }
}

// out[D] = softmax(q k) v over everything seen.
void attend_head(float* out, const float* q, int64_t kv_head, const std::vector<Seen>& seen) {
  const int64_t dim = seen.front().kv.w.head_dim;
  std::vector<double> scores;
  for (const Seen& s : seen) {
    for (int64_t p = s.first; p < s.end; ++p) {
      const float* k = s.kv.key(p, kv_head);
      double dot = 0;
      for (int64_t i = 0; i < dim; ++i) dot += static_cast<double>(q[i]) * k[i];
      scores.push_back(dot);
    }
  }
  const double top = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  std::vector<double> sum(static_cast<size_t>(dim));
  size_t next = 0;
  for (const Seen& s : seen) {
    for (int64_t p = s.first; p < s.end; ++p) {
      const double weight = std::exp(scores[next++] - top);
      const float* v = s.kv.value(p, kv_head);
      total += weight;
      for (int64_t i = 0; i < dim; ++i) sum[static_cast<size_t>(i)] += weight * v[i];
    }
  }
  for (int64_t i = 0; i < dim; ++i) out[i] = static_cast<float>(sum[static_cast<size_t>(i)] / total);
}

class Attention {
 public:
  Attention(Rows mixed, Rows projected, const WindowedAttentionWeights& w, size_t index,
            const StageProbe& probe)
      : mixed_(mixed), projected_(projected), w_(w), index_(index), probe_(probe) {}

  View committed(SequenceState& state) const { return {w_, state.kv[index_].pages}; }
  View canvas(CanvasState& state) const { return {w_, state.kv[index_].pages}; }

  void append(const Segment& s) const {
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t position = s.state->position + r;
      store(projected_.row(s.first_row + r), position, position, committed(*s.state));
    }
  }

  void append(const CanvasSegment& s) const {
    for (size_t r = 0; r < s.slots.size(); ++r) {
      store(projected_.row(s.first_row + static_cast<int64_t>(r)), s.slots[r], s.committed + s.slots[r],
            canvas(*s.canvas));
    }
  }

  void attend(const Segment& s) const {
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t position = s.state->position + r;
      const int64_t first = w_.window == 0 ? 0 : std::max<int64_t>(0, position - w_.window + 1);
      attend_row(s.first_row + r, position, {{committed(*s.state), first, position + 1}},
                 {committed(*s.state), position});
    }
  }

  void attend(const CanvasSegment& s) const {
    const int64_t first = w_.window == 0 ? 0 : std::max<int64_t>(0, s.committed - (w_.window - 1));
    const std::vector<Seen> seen{{committed(*s.state), first, s.committed}, {canvas(*s.canvas), 0, s.length}};
    for (size_t r = 0; r < s.slots.size(); ++r) {
      attend_row(s.first_row + static_cast<int64_t>(r), s.committed + s.slots[r], seen,
                 {canvas(*s.canvas), s.slots[r]});
    }
  }

 private:
  // Where a row's own keys and values are.
  struct Own {
    View kv;
    int64_t slot;
  };

  void attend_row(int64_t row, int64_t position, const std::vector<Seen>& seen, const Own& own) const {
    const Rotation rotation(position, w_);
    std::vector<float> q(static_cast<size_t>(w_.heads * w_.head_dim));
    for (int64_t h = 0; h < w_.heads; ++h) {
      float* head = q.data() + h * w_.head_dim;
      rms_norm(head, projected_.row(row) + h * w_.head_dim, w_.q_norm.floats(), w_.head_dim, w_.norm_epsilon);
      rotation.turn(head);
      attend_head(mixed_.row(row) + h * w_.head_dim, head, h / (w_.heads / w_.kv_heads), seen);
    }
    if (!probe_) return;
    const auto width = static_cast<size_t>(w_.kv_heads * w_.head_dim);
    probe_("q", q);
    probe_("k", {own.kv.key(own.slot, 0), width});
    probe_("v", {own.kv.value(own.slot, 0), width});
    probe_("heads", {mixed_.row(row), q.size()});
  }

  Rows mixed_, projected_;
  const WindowedAttentionWeights& w_;
  size_t index_;
  const StageProbe& probe_;
};

}  // namespace

size_t ReferenceDiffusionSteps::kv_page_bytes(const WindowedAttentionWeights& w) const {
  return static_cast<size_t>(2 * kKvPage * w.kv_heads * w.head_dim) * sizeof(float);
}

void ReferenceDiffusionSteps::attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w,
                                     const CanvasBatch& batch, int64_t index, bool canvas_only) {
  const Attention attention(mixed, projected, w, static_cast<size_t>(index), probe_);
  for (const Segment& s : batch.segments) attention.append(s);
  for (const CanvasSegment& s : batch.canvases) attention.append(s);
  if (!canvas_only) {
    for (const Segment& s : batch.segments) attention.attend(s);
  }
  for (const CanvasSegment& s : batch.canvases) attention.attend(s);
}

}  // namespace weir::reference
