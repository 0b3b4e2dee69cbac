#include "models/qwen/forward.h"

#include "kernels/diffusion_steps.h"

namespace weir::qwen {
namespace {

// T rows, H hidden, D head_dim, I intermediate size of an expert.
void run_layer(Steps& steps, const Layer& layer, float eps, const Batch& batch, const Pass& pass) {
  const auto& [x, qkv, attended, qkvzba, recalled, normed, routing, activated, logits] = pass;
  if (layer.attention) {
    const AttentionWeights& w = *layer.attention;
    steps.norm_project(qkv, x, layer.norm_in, eps, *w.in);  // [T, 2 (heads + kv_heads) D]
    steps.attend(attended, qkv, w, batch, layer.index);     // [T, heads D]
    steps.project_add(x, attended, *w.out);                 // [T, H]
  } else {
    const DeltaWeights& w = *layer.delta;
    steps.norm_project(qkvzba, x, layer.norm_in, eps, *w.in);   // [T, channels + value_heads (value_dim + 2)]
    steps.delta_rule(recalled, qkvzba, w, batch, layer.index);  // [T, value_heads value_dim]
    steps.project_add(x, recalled, *w.out);                     // [T, H]
  }
  steps.norm_route(normed, routing, x, layer.norm_post, eps, layer.moe);  // [T, H], [T, top_k + 1]
  steps.experts_up(activated, normed, routing, layer.moe);                // [T (top_k + 1), I]
  steps.experts_down_add(x, activated, routing, layer.moe);               // [T, H]
}

}  // namespace

// V vocabulary.
void forward(Steps& steps, const Weights& weights, float norm_epsilon, const Batch& batch, const Pass& pass) {
  steps.begin(batch);
  steps.embed(pass.x, batch, *weights.embedding);  // [T, H]
  for (const Layer& layer : weights.layers) run_layer(steps, layer, norm_epsilon, batch, pass);
  steps.norm_head(pass.logits, pass.x, weights.norm, norm_epsilon, *weights.head, batch);  // [wanted, V]
}

void draft_forward(Steps& steps, const Weights& weights, float norm_epsilon, const Batch& batch, Rows hidden,
                   const Pass& pass) {
  const DraftHead& head = *weights.draft_head;
  steps.begin(batch);
  steps.embed(pass.normed, batch, *weights.embedding);                                               // [T, H]
  steps.norm_project(pass.x, pass.normed, head.norm_embedding, norm_epsilon, *head.from_embedding);  // [T, H]
  steps.diffusion()->norm(pass.normed, hidden, head.norm_hidden, norm_epsilon);                      // [T, H]
  steps.project_add(pass.x, pass.normed, *head.from_hidden);                                         // [T, H]
  run_layer(steps, head.layer, norm_epsilon, batch, pass);
  steps.norm_head(pass.logits, pass.x, head.norm, norm_epsilon, *weights.head, batch);  // [wanted, V]
}

}  // namespace weir::qwen
