// The steps around matrices: norms, projections, routing and experts. Each goes through three phases, with a
// barrier of the pool between them: rows are normed and rounded, tiles are interleaved, and then blocks of
// weights are multiplied, each block by one thread (whichever comes to it), which owns the 16 outputs of
// every row that it makes.
#pragma once

#include <span>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/linear.h"

namespace weir::cpu {

// f(row) for all rows, divided over the threads. A handful stays on this one: a row takes less than the
// microseconds that waking the others does.
template <class F>
void for_rows(ThreadPool& pool, int64_t rows, const F& f) {
  constexpr int64_t kWorthWaking = 5;
  if (rows < kWorthWaking) {
    for (int64_t row = 0; row < rows; ++row) f(row);
    return;
  }
  pool.run([&](int thread) {
    const Range mine = part_of(rows, thread, pool.threads());
    for (int64_t row = mine.begin; row < mine.end; ++row) f(row);
  });
}

class Products {
 public:
  Products(const CpuKernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  const CpuKernels& kernels() const { return kernels_; }

  Status reserve(const Limits& limits);

  // RMSNorm of all rows, or of the wanted ones, into scratch that lasts until the next such call.
  Rows norm(Rows x, const Vector& gain, float epsilon);
  Rows norm_wanted(Rows x, std::span<const int32_t> wanted, const Vector& gain, float epsilon);
  void norm_into(Rows normed, Rows x, const Vector& gain, float epsilon);

  // out = x W^T and out += x W^T. Few rows are bound by memory: every byte of W is read once, so a call takes
  // at least W.bytes() / bandwidth. Many are bound by arithmetic, as linear_kernels.h says.
  void project(Rows out, Rows x, const PackedLinear& w);
  void project_add(Rows out, Rows x, const PackedLinear& w);

  // Logits with float activations, then the choice of each row, and the shared expert where there is one.
  void route(Routing routing, Rows normed, const MoeWeights& w);

  // Every chosen expert is read once, however many rows chose it, and goes through the same code for one row
  // and for thousands. experts_up hands (expert, block) pairs out by cost. In experts_down_add
  // a thread owns outputs, so that it can sum their slots: it keeps the results of all (row, slot) pairs for
  // a panel of them.
  void experts_up(Rows activated, Rows normed, const Routing& routing, const MoeWeights& w);
  void experts_down_add(Rows x, Rows activated, const Routing& routing, const MoeWeights& w);

 private:
  void prepare(Rows x, unsigned kinds);
  void prepare_lists(Rows x, unsigned kinds, const int32_t* rows);
  void down_panel(const PackedExperts& w, Range blocks, float* y, int64_t width) const;

  template <class Emit>
  void multiply_parts(const PackedLinear& w, int64_t rows, const Emit& emit);

  const CpuKernels& kernels_;
  ThreadPool& pool_;
  Buffer scratch_;
  float* normed_ = nullptr;      // [T, widest]
  float* logits_ = nullptr;      // [T, experts]
  int32_t* identity_ = nullptr;  // 0, 1, 2, ...
  float* panels_ = nullptr;      // [threads, panel_floats_]
  int64_t panel_floats_ = 0;
  Activations activations_;
  ExpertLists lists_;
};

}  // namespace weir::cpu
