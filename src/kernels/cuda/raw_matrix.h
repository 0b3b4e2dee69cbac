// A matrix as the checkpoint holds it, in GPU memory: the embedding, and what is about to be packed.
#pragma once

#include <cstdint>

namespace weir::cuda {

enum class RawType : int32_t { kBf16, kF16, kF32 };

struct RawMatrix {
  const uint8_t* weight = nullptr;
  const uint8_t* scales = nullptr;
  const uint8_t* biases = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int32_t bits = 0;  // 0: plain values of `type`; else affine, and `type` is that of scales and biases
  int32_t group = 0;
  RawType type = RawType::kBf16;
  int32_t unused = 0;
};

}  // namespace weir::cuda
