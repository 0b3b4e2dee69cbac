// The steps that only block diffusion needs: DiffusionGemma's layer, its self-conditioning and its head. The
// rules of steps.h hold. T is the number of rows, H the hidden size, C rows of a canvas, F the width of the
// dense MLP.
//
// RMSNorm(x; gain) = x * rsqrt(mean(x^2) + epsilon) * gain.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/steps.h"

namespace weir {

// What a head pass finds out about one row: the distribution p = softmax(y) over the vocabulary, with
// y = softcap tanh(logits / softcap) / temperature.
struct Belief {
  int32_t best = 0;     // the largest y, ties to the lower id
  int32_t second = 0;   // the next one in that order
  int32_t sampled = 0;  // a draw from p
  float best_probability = 0;
  float second_probability = 0;
  float entropy = 0;  // -sum of p log p, nats
};

// Gains of the norms behind a layer's feed-forward half.
struct FeedForwardNorms {
  Vector dense;    // of the dense MLP's result
  Vector experts;  // of the experts' result
  Vector sum;      // of both results, normed and added
};

// What a layer's residual stream is multiplied with at its end.
struct LayerScalars {
  float causal = 1;  // rows that are committed
  float canvas = 1;
};

// How the head draws a token: per panel of kVocabularyPanel neighbouring tokens, with w the log of the
// panel's total weight sum of e^y, the panel with the largest w + Gumbel(u0) is chosen, and the token in it
// by inverse distribution function in order of ids at the point u1. That is a draw from p, and it does not
// matter in which order or in how many parts the vocabulary is walked (Maddison, Tarlow, Minka, A* sampling,
// 2014, section 3). u0 and u1 are the first two words of the panel's key, (word + 0.5) 2^-32; Gumbel(u) =
// -log(-log u), in float64.
inline constexpr int64_t kVocabularyPanel = 256;

// The key of a panel's words: the panel's number stands above the purpose.
inline DrawKey panel_draw(DrawKey row, int64_t panel) {
  row.purpose =
      static_cast<Purpose>(static_cast<uint32_t>(Purpose::kDenoise) | static_cast<uint32_t>(panel) << 8);
  return row;
}

class DiffusionSteps {
 public:
  virtual ~DiffusionSteps() = default;

  // Called once, after Steps::reserve.
  virtual Status reserve(const Limits& limits) = 0;

  // Embeddings are multiplied with `scale` wherever they are read as embeddings, not as head.
  virtual Result<std::unique_ptr<Vocabulary>> pack_vocabulary(const Matrix& embedding, float scale) = 0;
  virtual size_t kv_page_bytes(const WindowedAttentionWeights& attention) const = 0;

  // x[t] = scale * embedding[token t].
  //   x [T, H]
  virtual void embed(Rows x, const CanvasBatch& batch, const Vocabulary& vocabulary) = 0;

  // soft[c] = the expected embedding that the canvas holds for the c-th canvas row of the batch.
  //   soft [C, H]
  virtual void recall(Rows soft, const CanvasBatch& batch) = 0;

  // out = RMSNorm(x; gain). `out` may be `x`.
  //   out [T, H]
  virtual void norm(Rows out, Rows x, const Vector& gain, float epsilon) = 0;

  // With n = RMSNorm(x; gain): activated = gelu(n gate^T) * (n up^T), tanh approximation; `gate_up` stacks
  // gate, then up.
  //   gate_up [2 F, H], activated [T, F]
  virtual void norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon,
                          const Linear& gate_up) = 0;

  // Attention of layer `index` (into SequenceState::kv and CanvasState::kv), over all rows of the batch. q
  // and k are RMS-normed per head and rotated; v is normed without a gain and not rotated. Keys and values of
  // causal rows are appended to their sequence, those of canvas rows replace their slots'; then mixed =
  // softmax(q k) v, where
  //   a causal row at position i sees positions j with 0 <= i - j, and i - j < window where there is one;
  //   a canvas row sees the last min(committed, window - 1) committed tokens (all without a window) and every
  //   slot of its canvas, whatever its own position: the rectangle does not slide.
  // With `canvas_only`, rows before the canvas rows only append, and their `mixed` is not written.
  //   projected [T, in.rows], mixed [T, heads * D]
  virtual void attend(Rows mixed, Rows projected, const WindowedAttentionWeights& w, const CanvasBatch& batch,
                      int64_t index, bool canvas_only) = 0;

  // out = in W^T.
  //   out [T, W.rows]
  virtual void project(Rows out, Rows in, const Linear& w) = 0;

  // x += RMSNorm(mixed W^T; gain).
  //   x [T, H]
  virtual void project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain, float epsilon) = 0;

  // logits = RMSNorm(x; gain) router^T; the top_k largest (ties to the lower expert), their softmax
  // renormalised to sum 1, then times expert_scale of the expert.
  //   routing [T, top_k]
  virtual void route(Routing routing, Rows x, const Vector& gain, float epsilon, const MoeWeights& w,
                     const Vector& expert_scale) = 0;

  // out[t] = sum over s of weights[t, s] * (activated[t, s] down_e^T), in slot order.
  //   out [T, H]
  virtual void experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) = 0;

  // x = (x + RMSNorm(RMSNorm(dense) + RMSNorm(experts))) * scalar; rows before `causal_rows` have
  // scalars.causal, the others scalars.canvas.
  //   x [T, H]
  virtual void feed_forward_add(Rows x, Rows dense, Rows experts, const FeedForwardNorms& norms,
                                float epsilon, LayerScalars scalars, int64_t causal_rows) = 0;

  // For each inquiry i about row r of the batch, with x[r - first_row] its residual stream: beliefs[i], from
  // the logits RMSNorm(x; gain) E^T capped at `softcap`; where r is a canvas row and the inquiry's
  // soft_tokens is not 0, the canvas's expected embedding of the slot becomes scale * sum of p_v E_v. One
  // pass over the vocabulary; the logits of all tokens are never held at once.
  //   beliefs [inquiries]
  virtual void norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                         const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) = 0;
};

}  // namespace weir
