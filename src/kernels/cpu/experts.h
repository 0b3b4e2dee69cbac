// The experts of a layer, and the lists of rows that each of them gets in a pass.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/linear.h"

namespace weir::cpu {

class PackedExperts final : public Experts {
 public:
  static Result<std::unique_ptr<Experts>> pack(std::span<const ExpertSource> sources,
                                               const CpuKernels& kernels, std::string isa, ThreadPool& pool);

  // Block b of gate and block b of up are neighbours, as both are read for the same outputs.
  struct Expert {
    PackedMatrix gate, up, down;

    int64_t up_block_bytes() const { return gate.block_bytes + up.block_bytes; }
  };

  int64_t count() const override { return static_cast<int64_t>(experts_.size()); }
  int64_t hidden() const override { return experts_.front().gate.cols; }
  int64_t intermediate() const override { return experts_.front().gate.rows; }
  uint64_t up_bytes(int64_t e) const override { return static_cast<uint64_t>(up_size(expert(e))); }
  uint64_t down_bytes(int64_t e) const override { return static_cast<uint64_t>(expert(e).down.bytes()); }
  std::string kernel() const override;

  const Expert& expert(int64_t e) const { return experts_[static_cast<size_t>(e)]; }
  // Kinds of activations that any gate or up, or any down, reads.
  unsigned up_kinds() const { return up_kinds_; }
  unsigned down_kinds() const { return down_kinds_; }

 private:
  PackedExperts() = default;
  static int64_t up_size(const Expert& e) { return e.gate.blocks() * e.up_block_bytes(); }

  std::vector<Expert> experts_;
  unsigned up_kinds_ = 0;
  unsigned down_kinds_ = 0;
  Buffer memory_;
  std::string isa_;
};

// A counting sort of the (row, slot) pairs by expert, stable, so an expert's list is in row order. Pair
// p = row * slots + slot. Experts without rows are left out. For one row it costs a microsecond, and the same
// code then addresses its experts directly.
class ExpertLists {
 public:
  static size_t scratch_bytes(int64_t pairs, int64_t experts);
  void place(Carver& scratch, int64_t pairs, int64_t experts);

  void build(const Routing& routing, int64_t experts);

  struct List {
    int32_t expert = 0;
    int32_t begin = 0;  // positions [begin, end)
    int32_t end = 0;

    int64_t count() const { return end - begin; }
  };
  std::span<const List> lists() const { return {lists_, static_cast<size_t>(list_count_)}; }
  const int32_t* pairs() const { return pairs_; }  // [position]
  const int32_t* rows() const { return rows_; }    // [position], pair / slots

 private:
  List* lists_ = nullptr;
  int32_t* begins_ = nullptr;  // [experts + 1]
  int32_t* pairs_ = nullptr;
  int32_t* rows_ = nullptr;
  int64_t list_count_ = 0;
};

}  // namespace weir::cpu
