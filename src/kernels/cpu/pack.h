// Weights in the layout of linear_kernels.h. A matrix of 2, 3, 4 or 8 bits keeps its size, one of 5 or 6 bits
// becomes one of 8, all with their q, scales and biases exactly; a bfloat16 matrix stays bfloat16; float16
// and float32 become float32. Scales and biases stay bfloat16 or, where the checkpoint has another type,
// become float32. Rows are padded to 16 with zeros, which are multiplied but never written out.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/matrix.h"
#include "kernels/cpu/kernels.h"
#include "kernels/steps.h"

namespace weir::cpu {

// A matrix in its packed form: block b lies at data + b * stride.
struct PackedMatrix {
  Container container = Container::kBits4;
  bool wide_scales = false;      // float32
  bool int8_activations = true;  // else float
  int64_t group = 0;             // 0: plain
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t block_bytes = 0;
  int64_t stride = 0;
  uint8_t* data = nullptr;
  Product product = nullptr;

  int64_t blocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  int64_t bytes() const { return blocks() * block_bytes; }
  uint8_t* block(int64_t b) const { return data + b * stride; }
  // Rows of block b that exist.
  int64_t block_rows(int64_t b) const { return std::min(kBlockRows, rows - b * kBlockRows); }
  std::string kernel() const;  // "q4_i8", "q8_f32", "bf16_f32"
};

// Errors: kUnsupported, for an encoding or shape that the kernels do not have.
Status check_packable(const Matrix& matrix);

// How `matrix`, which is packable, will be packed; `data` is still null and `stride` is block_bytes.
PackedMatrix plan_packing(const Matrix& matrix, Use use, const CpuKernels& kernels);

struct PackJob {
  PackedMatrix packed;
  Matrix source;
};

// Fills the packed matrices, whose memory is zeroed, with all threads of the pool.
void pack_all(const std::vector<PackJob>& jobs, ThreadPool& pool);

}  // namespace weir::cpu
