#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd.h"

namespace weir::cpu::WEIR_ISA {

extern const RowKernels kRowKernels;
extern const Int8Kernels kInt8Kernels;
extern const FloatKernels kFloatKernels;
extern const AttentionKernels kAttentionKernels;
extern const DeltaKernels kDeltaKernels;
extern const HeadKernels kHeadKernels;

// constinit, because code that runs before main would use this instruction set on every CPU.
extern constinit const CpuKernels kKernels = {kRowKernels,       kInt8Kernels,  kFloatKernels,
                                              kAttentionKernels, kDeltaKernels, kHeadKernels};

}  // namespace weir::cpu::WEIR_ISA
