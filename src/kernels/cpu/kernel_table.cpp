#include "kernels/cpu/kernels.h"

namespace weir::cpu::WEIR_ISA {

RowKernels row_kernels();
LinearKernels linear_kernels();
extern const AttentionKernels kAttentionKernels;
extern const DeltaKernels kDeltaKernels;

extern const CpuKernels kKernels = {row_kernels(), linear_kernels(), kAttentionKernels, kDeltaKernels};

}  // namespace weir::cpu::WEIR_ISA
