// How much memory sequences take that share pages.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "kernels/state.h"

namespace weir {

// Memory of a set of sequences, every shared page counted once.
class StateBytes {
 public:
  void add(const SequenceState& state);
  void remove(const SequenceState& state);
  uint64_t total() const { return total_; }

 private:
  std::unordered_map<const void*, int64_t> holders_;
  uint64_t total_ = 0;
};

}  // namespace weir
