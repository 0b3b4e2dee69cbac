#include "models/qwen/forward.h"

namespace weir::qwen {

// T rows, H hidden, D head_dim, V vocabulary, I intermediate size of an expert.
void forward(Steps& steps, const Weights& weights, float norm_epsilon, const Batch& batch, const Pass& pass) {
  const auto& [x, qkv, attended, qkvzba, recalled, normed, routing, activated, logits] = pass;
  const float eps = norm_epsilon;

  steps.begin(batch);
  steps.embed(x, batch, *weights.embedding);  // [T, H]
  for (const Layer& layer : weights.layers) {
    if (layer.attention) {
      const AttentionWeights& w = *layer.attention;
      steps.norm_project(qkv, x, layer.norm_in, eps, *w.in);  // [T, 2 (heads + kv_heads) D]
      steps.attend(attended, qkv, w, batch, layer.index);     // [T, heads D]
      steps.project_add(x, attended, *w.out);                 // [T, H]
    } else {
      const DeltaWeights& w = *layer.delta;
      steps.norm_project(qkvzba, x, layer.norm_in, eps,
                         *w.in);  // [T, channels + value_heads (value_dim + 2)]
      steps.delta_rule(recalled, qkvzba, w, batch, layer.index);  // [T, value_heads value_dim]
      steps.project_add(x, recalled, *w.out);                     // [T, H]
    }
    steps.norm_route(normed, routing, x, layer.norm_post, eps, layer.moe);  // [T, H], [T, top_k + 1]
    steps.experts_up(activated, normed, routing, layer.moe);                // [T (top_k + 1), I]
    steps.experts_down_add(x, activated, routing, layer.moe);               // [T, H]
  }
  steps.norm_head(logits, x, weights.norm, eps, *weights.head, batch);  // [wanted, V]
}

}  // namespace weir::qwen
