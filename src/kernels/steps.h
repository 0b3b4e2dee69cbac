// The steps that the forward pages are written in. Each is declared once, here, with its formula, shapes and
// the order of its sums; a backend implements all of them. T is the number of rows, H the hidden size.
//
// Rules for every implementation
// - A row's result does not depend on the other rows, on T, on how rows were cut into calls or on the number
// of threads. On the
//   CPU it is the same bit for bit.
// - The reference rounds to float32 only. Other backends state their rounding beside each kernel.
// - No step allocates: `reserve` has been called for the largest T.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/matrix.h"
#include "kernels/memory.h"
#include "kernels/state.h"
#include "kernels/token_chooser.h"
#include "kernels/weights.h"

namespace weir {

// Largest sizes that any step will meet; a backend sizes its scratch memory by them.
struct Limits {
  int64_t rows = 0;    // T
  int64_t hidden = 0;  // H
  int64_t widest = 0;  // widest matrix input or output other than the head
  int64_t vocabulary = 0;
  int64_t slots = 0;         // of the routing
  int64_t experts = 0;       // with the shared one
  int64_t intermediate = 0;  // of an expert
};

// What a matrix is for. A router's logits decide between experts, so its activations are never quantised.
enum class Use { kProjection, kRouter };

// One expert's matrices as the checkpoint holds them.
struct ExpertSource {
  Matrix gate;  // [I, H]
  Matrix up;    // [I, H]
  Matrix down;  // [H, I]
};

class DiffusionSteps;

class Steps {
 public:
  virtual ~Steps() = default;

  virtual std::string name() const = 0;  // "reference", "cpu avx512-vnni"

  // ---- memory
  // -------------------------------------------------------------------------------------------------

  // Zeroed. Error: kOutOfMemory, with the size asked for.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  virtual void copy_in(void* to, const void* from_host, size_t bytes) = 0;
  virtual void copy_out(void* to_host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;  // within the backend
  virtual Dtype activation_dtype() const { return Dtype::kF32; }
  virtual size_t kv_page_bytes(const AttentionWeights& attention) const = 0;
  virtual Status reserve(const Limits& limits) = 0;

  // ---- weights
  // ------------------------------------------------------------------------------------------------

  // The parts stacked on top of each other; they share `cols` and may differ in encoding.
  virtual Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use use) = 0;
  virtual Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) = 0;
  virtual Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) = 0;

  // ---- steps
  // --------------------------------------------------------------------------------------------------

  // Called before the first step of a pass.
  virtual void begin(const Batch& batch) = 0;

  // x[t] = embedding[token t].                                                                       x [T, H]
  virtual void embed(Rows x, const Batch& batch, const Embedding& embedding) = 0;

  // out = RMSNorm(x) W^T with RMSNorm(x) = x * rsqrt(mean(x^2) + epsilon) * gain.                     out [T,
  // W.rows]
  virtual void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) = 0;

  // Gated attention of attention layer `index` (an index into SequenceState::kv).
  // Per head: q and k are RMS-normed and rotated, k and v are appended to the cache, A = softmax(q k /
  // sqrt(D)) over positions up to the row's own, mixed = (A v) * sigmoid(gate).            projected [T,
  // in.rows], mixed [T, heads * D]
  virtual void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch,
                      int64_t index) = 0;

  // Gated DeltaNet layer `index` (into SequenceState::delta): causal depthwise convolution and SiLU over q,
  // k, v; q and k l2-normalised, q scaled by key_dim^-1/2; per value head, with decay exp(-decay * softplus(a
  // + dt_bias)) and beta = sigmoid(b):  S = decay S;  S += k (beta (v - S^T k))^T;  o = S^T q;  then mixed =
  // RMSNorm(o; norm) * silu(z). The recurrence is sequential in t.   projected [T, in.rows], mixed [T,
  // value_heads * value_dim]
  virtual void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch,
                          int64_t index) = 0;

  // x += mixed W^T.                                                                                   x [T,
  // H]
  virtual void project_add(Rows x, Rows mixed, const Linear& w) = 0;

  // normed = RMSNorm(x; gain); logits = normed router^T; the top_k largest of softmax(logits) (ties to the
  // lower expert), renormalised to sum 1, are the first slots; the last slot is expert E with weight
  // sigmoid(its own row).
  //                                                                                     normed [T, H],
  //                                                                                     routing [T, top_k +
  //                                                                                     1]
  virtual void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                          const MoeWeights& w) = 0;

  // activated[t, s] = f(normed gate_e^T) * (normed up_e^T) with e = routing.experts[t, s] and f =
  // w.activation.
  //                                                                                 activated [T * slots, I]
  virtual void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) = 0;

  // x[t] += sum over s of weights[t, s] * (activated[t, s] down_e^T), summed in slot order, then added. x [T,
  // H]
  virtual void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) = 0;

  // logits[i] = RMSNorm(x[wanted i]) W^T.                                                             logits
  // [wanted, V]
  virtual void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                         const Batch& batch) = 0;

  // The further steps of block diffusion (diffusion_steps.h); null where the backend does not have them.
  virtual DiffusionSteps* diffusion() { return nullptr; }

  // Chooses the tokens of an answer to `prompt`, all of whose tokens are valid ids; null where the backend
  // leaves that to the host. The steps outlive the chooser. Errors: kOutOfMemory, kDevice.
  virtual Result<std::unique_ptr<TokenChooser>> make_chooser(const ChoiceRules& /*rules*/,
                                                             std::span<const int32_t> /*prompt*/) {
    return std::unique_ptr<TokenChooser>();
  }

  // Waits for all steps and reports what went wrong in any of them. On the CPU always ok.
  virtual Status finish() = 0;
};

}  // namespace weir
