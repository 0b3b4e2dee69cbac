#include "models/diffusion_gemma/forward.h"

namespace weir::diffusion_gemma {
namespace {

// Canvas embeddings, corrected by what the last pass expects them to be. C canvas rows, F width of the MLP.
void condition(Steps& steps, const Weights& weights, float eps, const CanvasBatch& batch, const Pass& canvas,
               Rows soft) {
  DiffusionSteps& diffusion = *steps.diffusion();
  const SelfConditioning& w = weights.condition;
  if (batch.conditioned) {
    diffusion.recall(soft, batch);                                      // [C, H]
    diffusion.norm_gated(canvas.gated, soft, w.norm, eps, *w.gate_up);  // [C, F]
    steps.project_add(canvas.x, canvas.gated, *w.down);                 // [C, H]
  }
  diffusion.norm(canvas.x, canvas.x, weights.ones, eps);  // [C, H]
}

// Dense MLP and experts side by side, from the same residual stream. T rows, F dense width, I expert width.
void feed_forward(Steps& steps, const Layer& layer, float eps, const Pass& p) {
  DiffusionSteps& diffusion = *steps.diffusion();
  diffusion.norm_gated(p.gated, p.x, layer.norm_dense, eps, *layer.gate_up);               // [T, F]
  diffusion.project(p.dense, p.gated, *layer.down);                                        // [T, H]
  diffusion.route(p.routing, p.x, layer.router_gain, eps, layer.moe, layer.expert_scale);  // [T, top_k]
  diffusion.norm(p.normed, p.x, layer.norm_experts, eps);                                  // [T, H]
  steps.experts_up(p.activated, p.normed, p.routing, layer.moe);                           // [T top_k, I]
  diffusion.experts_down(p.routed, p.activated, p.routing, layer.moe);                     // [T, H]
  diffusion.feed_forward_add(p.x, p.dense, p.routed, layer.norms_out, eps, layer.scalars, p.causal_rows);
}

}  // namespace

// T rows, H hidden.
void forward(Steps& steps, const Weights& weights, const Config& config, const CanvasBatch& batch,
             const Pass& pass) {
  DiffusionSteps& diffusion = *steps.diffusion();
  const float eps = config.norm_epsilon;
  const Pass canvas = pass.from(pass.causal_rows);
  // Nobody reads committed tokens after the last layer's keys and values, unless they are asked about.
  const bool causal_asked = !batch.inquiries.empty() && batch.inquiries.front().row < pass.causal_rows;
  const Pass& asked = causal_asked ? pass : canvas;

  steps.begin(batch);
  diffusion.embed(pass.x, batch, *weights.vocabulary);  // [T, H]
  if (canvas.x.rows > 0) condition(steps, weights, eps, batch, canvas, pass.soft);
  for (int64_t i = 0; i < config.layers; ++i) {
    const Layer& layer = weights.layers[static_cast<size_t>(i)];
    const WindowedAttentionWeights& w = layer.attention;
    const bool full = config.is_full[static_cast<size_t>(i)], last = i + 1 == config.layers;
    const Rows projected = full ? pass.projected_full : pass.projected_sliding;
    const Rows mixed = full ? pass.mixed_full : pass.mixed_sliding;
    const Pass& p = last ? asked : pass;
    steps.norm_project(projected, pass.x, layer.norm_in, eps, *w.in);  // [T, in.rows]
    diffusion.attend(mixed, projected, w, batch, i, p.first_row > 0);  // [T, heads D]
    if (p.x.rows == 0) return;
    diffusion.project_norm_add(p.x, mixed.from(p.first_row), *w.out, layer.norm_attention, eps);  // [T, H]
    feed_forward(steps, layer, eps, p);                                                           // [T, H]
  }
  diffusion.norm_head(asked.beliefs, asked.x, asked.first_row, weights.norm, eps, *weights.vocabulary,
                      config.softcap, batch);  // [inquiries]
}

}  // namespace weir::diffusion_gemma
