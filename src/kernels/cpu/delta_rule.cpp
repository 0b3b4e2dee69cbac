#include "kernels/cpu/delta_rule.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/scratch.h"

namespace weir::cpu {
namespace {

// Tokens that are convolved before the recurrence runs over them. Their q, k and v of one head stay in the L2
// cache.
constexpr int64_t kBlock = 32;

// What one thread needs for a block of one value head.
struct HeadBlock {
  float* q;        // [kBlock, key_dim]
  float* k;        // [kBlock, key_dim]
  float* v;        // [kBlock, value_dim]
  float* columns;  // [key_dim, kColumns]
  float* decay;    // [kBlock], from a
  float* beta;     // [kBlock], from b
};

// `width` is at least 2 * key_dim + value_dim.
size_t block_bytes(int64_t width) {
  return carved_bytes(kBlock * width + kColumns * width / 2, sizeof(float)) +
         2 * carved_bytes(kBlock, sizeof(float)) + 3 * kCacheLine;
}

// One call of delta_rule.
class DeltaRule {
 public:
  DeltaRule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch, int64_t index,
            const DeltaKernels& kernels, int threads, void* scratch)
      : mixed_(mixed),
        projected_(projected),
        w_(w),
        batch_(batch),
        index_(static_cast<size_t>(index)),
        kernels_(kernels),
        threads_(threads),
        scratch_(static_cast<std::byte*>(scratch)),
        q_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(w.key_dim)))) {}

  // This thread's value heads, from the convolution to the gated norm. Those of one key head go together, as
  // they share q and k.
  void run_heads(int thread) const {
    const Range mine = part_of(w_.value_heads, thread, threads_);
    const int64_t group = w_.value_heads / w_.key_heads;
    for (const Segment& segment : batch_.segments) {
      for (int64_t head = mine.begin; head < mine.end;) {
        const int64_t end = std::min(mine.end, (head / group + 1) * group);
        for (int64_t row = 0; row < segment.rows; row += kBlock) {
          run_block(block_of(thread), segment, {head, end}, row, std::min(kBlock, segment.rows - row));
        }
        head = end;
      }
    }
  }

  // This thread's channels of the convolution's last inputs, for the next call.
  void carry(int thread) const {
    const Range mine = part_of(w_.channels(), thread, threads_, 16);
    const int64_t kept = w_.taps - 1;
    for (const Segment& segment : batch_.segments) {
      if (segment.rows == 0) continue;
      const ConvInput in = conv_input(segment);
      float* carried = state_of(segment).conv.floats();
      for (int64_t j = 0; j < kept; ++j) {  // ascending: a row is read before it is overwritten
        const int64_t row = segment.rows - kept + j;
        const float* from =
            row >= 0 ? in.rows + row * in.row_stride : in.carried + (kept + row) * in.channels;
        std::copy(from + mine.begin, from + mine.end, carried + j * in.channels + mine.begin);
      }
    }
  }

 private:
  DeltaState& state_of(const Segment& segment) const { return segment.state->delta[index_]; }

  HeadBlock block_of(int thread) const {
    const size_t bytes = block_bytes(2 * w_.key_dim + w_.value_dim);
    Carver carver(scratch_ + static_cast<size_t>(thread) * bytes);
    return {carver.take<float>(kBlock * w_.key_dim),
            carver.take<float>(kBlock * w_.key_dim),
            carver.take<float>(kBlock * w_.value_dim),
            carver.take<float>(w_.key_dim * kColumns),
            carver.take<float>(kBlock),
            carver.take<float>(kBlock)};
  }

  ConvInput conv_input(const Segment& segment) const {
    return {projected_.row(segment.first_row), projected_.cols, state_of(segment).conv.floats(), w_.taps - 1,
            w_.channels()};
  }

  // Rows [row, row + rows) of a segment, value heads `heads`, which share a key head.
  void run_block(const HeadBlock& block, const Segment& segment, Range heads, int64_t row,
                 int64_t rows) const {
    const ConvInput in = conv_input(segment);
    prepare_keys(block, in, heads.begin / (w_.value_heads / w_.key_heads), row, rows);
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      prepare_values(block, in, head, row, rows);
      float* out = mixed_.row(segment.first_row + row) + head * w_.value_dim;
      float* state = state_of(segment).recurrent.floats() + head * w_.key_dim * w_.value_dim;
      kernels_.recur({state, block.q, block.k, block.v, block.decay, block.beta, out, mixed_.cols, rows,
                      w_.key_dim, w_.value_dim, block.columns});
      const float* z = in.rows + row * in.row_stride + w_.channels() + head * w_.value_dim;
      for (int64_t t = 0; t < rows; ++t) {
        kernels_.norm_gate(out + t * mixed_.cols, z + t * in.row_stride, w_.norm.floats(), w_.norm_epsilon,
                           w_.value_dim);
      }
    }
  }

  void prepare_keys(const HeadBlock& block, const ConvInput& in, int64_t key_head, int64_t row,
                    int64_t rows) const {
    const int64_t q_channel = key_head * w_.key_dim;
    const int64_t k_channel = q_channel + w_.key_heads * w_.key_dim;
    for (int64_t t = 0; t < rows; ++t) {
      float* q = block.q + t * w_.key_dim;
      float* k = block.k + t * w_.key_dim;
      kernels_.convolve(q, in, w_.conv.floats(), row + t, q_channel, w_.key_dim);
      kernels_.convolve(k, in, w_.conv.floats(), row + t, k_channel, w_.key_dim);
      kernels_.normalise(q, q_scale_, w_.key_dim);
      kernels_.normalise(k, 1.0f, w_.key_dim);
    }
  }

  void prepare_values(const HeadBlock& block, const ConvInput& in, int64_t head, int64_t row,
                      int64_t rows) const {
    const int64_t channel = 2 * w_.key_heads * w_.key_dim + head * w_.value_dim;
    for (int64_t t = 0; t < rows; ++t) {
      kernels_.convolve(block.v + t * w_.value_dim, in, w_.conv.floats(), row + t, channel, w_.value_dim);
      const float* b = in.rows + (row + t) * in.row_stride + w_.channels() + w_.value_heads * w_.value_dim;
      block.beta[t] = b[head];
      block.decay[t] = b[w_.value_heads + head];
    }
    kernels_.gates(block.decay, block.beta, w_.decay.floats()[head], w_.dt_bias.floats()[head], rows);
  }

  Rows mixed_, projected_;
  const DeltaWeights& w_;
  const Batch& batch_;
  size_t index_;
  const DeltaKernels& kernels_;
  int threads_;
  std::byte* scratch_;
  float q_scale_;
};

}  // namespace

size_t delta_rule_scratch_bytes(const Limits& limits, int threads) {
  return static_cast<size_t>(threads) * block_bytes(limits.widest);
}

void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch, int64_t index,
                const DeltaKernels& kernels, ThreadPool& pool, void* scratch) {
  const DeltaRule rule(mixed, projected, w, batch, index, kernels, pool.threads(), scratch);
  pool.run([&](int thread) { rule.run_heads(thread); });
  pool.run([&](int thread) { rule.carry(thread); });
}

}  // namespace weir::cpu
