#include "kernels/observe/timed_diffusion_steps.h"

#include <algorithm>

namespace weir {
namespace {

// Positions whose keys and values the rows of the batch read at least once.
int64_t positions_read(const CanvasBatch& batch, int64_t window, bool canvas_only) {
  int64_t positions = 0;
  for (const Segment& s : batch.segments) {
    const int64_t past = window == 0 ? s.state->position : std::min(s.state->position, window - 1);
    if (!canvas_only) positions += past + s.rows;
  }
  for (const CanvasSegment& s : batch.canvases) {
    positions += s.length + (window == 0 ? s.committed : std::min(s.committed, window - 1));
  }
  return positions;
}

}  // namespace

void TimedDiffusionSteps::embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) {
  const uint64_t row = vocabulary.bytes() / static_cast<uint64_t>(vocabulary.rows());
  clock_.time("embed", static_cast<uint64_t>(x.rows) * row + x.bytes(),
              [&] { inner_.embed(x, batch, vocabulary); });
}

void TimedDiffusionSteps::recall(Rows soft, const CanvasBatch& batch) {
  clock_.time("recall", 2 * soft.bytes(), [&] { inner_.recall(soft, batch); });
}

void TimedDiffusionSteps::norm(Rows out, Rows x, const Vector& gain, float epsilon) {
  clock_.time("norm", x.bytes() + out.bytes(), [&] { inner_.norm(out, x, gain, epsilon); });
}

void TimedDiffusionSteps::norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon,
                                     const Linear& gate_up) {
  clock_.time("norm_gated", gate_up.bytes() + x.bytes() + activated.bytes(),
              [&] { inner_.norm_gated(activated, x, gain, epsilon, gate_up); });
}

void TimedDiffusionSteps::attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w,
                                 const CanvasBatch& batch, int64_t index, bool canvas_only) {
  const int64_t positions = positions_read(batch, w.window, canvas_only);
  const uint64_t kv = inner_.kv_page_bytes(w) * static_cast<uint64_t>(positions) / kKvPage;
  const Rows written = canvas_only ? mixed.from(batch.causal_rows()) : mixed;
  clock_.time("attend", kv + projected.bytes() + written.bytes(),
              [&] { inner_.attend(mixed, projected, w, batch, index, canvas_only); });
}

void TimedDiffusionSteps::project(Rows out, Rows in, const Linear& w) {
  clock_.time("project", w.bytes() + in.bytes() + out.bytes(), [&] { inner_.project(out, in, w); });
}

void TimedDiffusionSteps::project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain,
                                           float epsilon) {
  clock_.time("project_norm_add", w.bytes() + mixed.bytes() + 2 * x.bytes(),
              [&] { inner_.project_norm_add(x, mixed, w, gain, epsilon); });
}

void TimedDiffusionSteps::route(Routing routing, Rows x, const Vector& gain, float epsilon,
                                const MoeWeights& w, const Vector& expert_scale) {
  clock_.time("route", w.router->bytes() + x.bytes(),
              [&] { inner_.route(routing, x, gain, epsilon, w, expert_scale); });
}

void TimedDiffusionSteps::experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) {
  uint64_t bytes = activated.bytes() + out.bytes();
  for (const int32_t e : clock_.distinct_experts(routing)) bytes += w.expert->down_bytes(e);
  clock_.time("experts_down", bytes, [&] { inner_.experts_down(out, activated, routing, w); });
}

void TimedDiffusionSteps::feed_forward_add(Rows x, Rows dense, Rows experts, const FeedForwardNorms& norms,
                                           float epsilon, LayerScalars scalars, int64_t causal_rows) {
  clock_.time("feed_forward_add", 2 * x.bytes() + dense.bytes() + experts.bytes(),
              [&] { inner_.feed_forward_add(x, dense, experts, norms, epsilon, scalars, causal_rows); });
}

void TimedDiffusionSteps::norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain,
                                    float epsilon, const Vocabulary& vocabulary, float softcap,
                                    const CanvasBatch& batch) {
  // An inquiry reads its row, and writes as much where it asks for an expected embedding.
  const uint64_t row = x.first(1).bytes();
  uint64_t bytes = vocabulary.bytes();
  for (const Inquiry& i : batch.inquiries) {
    const bool soft = i.soft_tokens != 0 && i.row >= batch.causal_rows();
    bytes += soft ? 2 * row : row;
  }
  clock_.time("norm_head", bytes,
              [&] { inner_.norm_head(beliefs, x, first_row, gain, epsilon, vocabulary, softcap, batch); });
}

}  // namespace weir
