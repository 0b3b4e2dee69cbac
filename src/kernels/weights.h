// Weights as the steps take them: stacked by use, and packed once at load for the backend that reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/memory.h"

namespace weir {

// A packed matrix y = x W^T, W [rows, cols]. Each backend derives its own.
class Linear {
 public:
  virtual ~Linear() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual uint64_t bytes() const = 0;      // read by one pass over it
  virtual std::string kernel() const = 0;  // the implementation that reads it, "avx512-vnni/linear_q4_i8"
};

// The experts of one layer: E routed ones and, as number E, the shared one where there is one; each has gate,
// up [I, H] and down [H, I].
class Experts {
 public:
  virtual ~Experts() = default;
  virtual int64_t count() const = 0;                    // with the shared one
  virtual int64_t hidden() const = 0;                   // H
  virtual int64_t intermediate() const = 0;             // I
  virtual uint64_t up_bytes(int64_t expert) const = 0;  // gate and up
  virtual uint64_t down_bytes(int64_t expert) const = 0;
  virtual std::string kernel() const = 0;
};

// Token embeddings [V, H]; rows are looked up, never multiplied.
class Embedding {
 public:
  virtual ~Embedding() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual uint64_t row_bytes() const = 0;
};

// Token embeddings [V, H] that are the output head too, and from which expected embeddings are made.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual uint64_t bytes() const = 0;  // read by one pass over it
  virtual std::string kernel() const = 0;
};

// A small vector of float32: a norm gain, a bias, convolution taps.
struct Vector {
  Buffer values;
  int64_t count = 0;

  const float* floats() const { return values.floats(); }
};

// Gated attention (Qwen3.6). `in` stacks, for each query head, query [D] and gate [D]; then keys; then
// values: (2 * heads + 2 * kv_heads) * head_dim rows.
struct AttentionWeights {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rotary_dim = 0;  // the first dims of a head that rotate, in pairs (i, i + rotary_dim / 2)
  float rope_theta = 0;
  float norm_epsilon = 0;
  std::unique_ptr<Linear> in;
  std::unique_ptr<Linear> out;  // [H, heads * head_dim]
  Vector q_norm, k_norm;        // [head_dim], gains (1 + w already added)
};

// Gated DeltaNet. `in` stacks q, k, v (the convolved channels), then z, b, a.
struct DeltaWeights {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  // dims are of one head
  int64_t taps = 0;                                                    // convolution width
  float norm_epsilon = 0;
  std::unique_ptr<Linear> in;   // [channels() + value_heads * (value_dim + 2), H]
  std::unique_ptr<Linear> out;  // [H, value_heads * value_dim]
  Vector conv;                  // [taps, channels], the last tap multiplies the current token
  Vector decay;                 // [value_heads], exp(A_log)
  Vector dt_bias;               // [value_heads]
  Vector norm;                  // [value_dim], plain gain

  int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

// Attention of DiffusionGemma: no gate, scores are not scaled. `in` stacks queries, keys and, unless values
// are the keys before norm and rotation, values: (heads + 2 kv_heads) * head_dim or (heads + kv_heads) *
// head_dim rows.
struct WindowedAttentionWeights {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;         // positions that a causal row sees, its own included; 0: all
  int64_t rotated_pairs = 0;  // the pairs (i, i + head_dim / 2) with i below it turn
  bool values_are_keys = false;
  float rope_theta = 0;
  float norm_epsilon = 0;
  std::unique_ptr<Linear> in;
  std::unique_ptr<Linear> out;  // [H, heads * head_dim]
  Vector q_norm, k_norm;        // [head_dim]
};

enum class Activation { kSilu, kGeluTanh };

// Router: E rows of expert logits, then, where there is a shared expert, one row, its gate.
struct MoeWeights {
  int64_t experts = 0, top_k = 0;
  bool shared = true;
  Activation activation = Activation::kSilu;  // of the experts' gates
  std::unique_ptr<Linear> router;             // [E + shared, H]
  std::unique_ptr<Experts> expert;

  int64_t slots() const { return top_k + (shared ? 1 : 0); }
};

}  // namespace weir
