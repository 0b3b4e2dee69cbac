// Which kernels read a model's weights.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir {

struct KernelUse {
  std::string weights;  // "attention in", "experts"
  std::string kernel;   // "avx512-vnni/q4_i8"
  int matrices = 0;
};

// Counts matrices by use and kernel.
class KernelCount {
 public:
  template <class Packed>
  void add(const char* weights, const Packed& packed) {
    ++counts_[{weights, packed.kernel()}];
  }

  std::vector<KernelUse> uses() const {
    std::vector<KernelUse> out;
    for (const auto& [key, matrices] : counts_) out.push_back({key.first, key.second, matrices});
    return out;
  }

 private:
  std::map<std::pair<std::string, std::string>, int> counts_;
};

}  // namespace weir
