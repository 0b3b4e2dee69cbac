#include "kernels/observe/timed_steps.h"

namespace weir {

void TimedSteps::embed(Rows x, const Batch& batch, const Embedding& embedding) {
  const uint64_t bytes = static_cast<uint64_t>(x.rows) * embedding.row_bytes() + x.bytes();
  clock_.time("embed", bytes, [&] { inner().embed(x, batch, embedding); });
}

void TimedSteps::norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) {
  clock_.time("norm_project", w.bytes() + x.bytes() + out.bytes(),
              [&] { inner().norm_project(out, x, gain, epsilon, w); });
}

void TimedSteps::attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
                        int64_t index) {
  uint64_t positions = 0;
  for (const Segment& s : batch.segments) positions += static_cast<uint64_t>(s.state->position + s.rows);
  const uint64_t kv = inner().kv_page_bytes(w) * positions / kKvPage;
  clock_.time("attend", kv + projected.bytes() + mixed.bytes(),
              [&] { inner().attend(mixed, projected, w, batch, index); });
}

void TimedSteps::delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                            int64_t index) {
  const int64_t state = w.value_heads * w.key_dim * w.value_dim + (w.taps - 1) * w.channels();
  const uint64_t states = 2 * batch.segments.size() * static_cast<uint64_t>(state) * sizeof(float);
  clock_.time("delta_rule", states + projected.bytes() + mixed.bytes(),
              [&] { inner().delta_rule(mixed, projected, w, batch, index); });
}

void TimedSteps::project_add(Rows x, Rows mixed, const Linear& w) {
  clock_.time("project_add", w.bytes() + mixed.bytes() + 2 * x.bytes(),
              [&] { inner().project_add(x, mixed, w); });
}

void TimedSteps::norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                            const MoeWeights& w) {
  clock_.time("norm_route", w.router->bytes() + x.bytes() + normed.bytes(),
              [&] { inner().norm_route(normed, routing, x, gain, epsilon, w); });
}

void TimedSteps::experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) {
  uint64_t bytes = normed.bytes() + activated.bytes();
  for (const int32_t e : clock_.distinct_experts(routing)) bytes += w.expert->up_bytes(e);
  clock_.time("experts_up", bytes, [&] { inner().experts_up(activated, normed, routing, w); });
}

void TimedSteps::experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) {
  uint64_t bytes = activated.bytes() + 2 * x.bytes();
  for (const int32_t e : clock_.distinct_experts(routing)) bytes += w.expert->down_bytes(e);
  clock_.time("experts_down_add", bytes, [&] { inner().experts_down_add(x, activated, routing, w); });
}

void TimedSteps::norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                           const Batch& batch) {
  clock_.time("norm_head", head.bytes() + logits.bytes(),
              [&] { inner().norm_head(logits, x, gain, epsilon, head, batch); });
}

Status TimedSteps::finish() {
  WEIR_RETURN_IF_ERROR(clock_.take_error());
  return inner().finish();
}

}  // namespace weir
