// The table of everything that is compiled once for each instruction set. Plain structs and function pointers
// only: both the ordinary files and the per-instruction-set ones include it. All functions run on one thread;
// who calls them for which part of the work is decided in the ordinary files.
#pragma once

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/delta_rule_kernels.h"
#include "kernels/cpu/head_kernels.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/row_kernels.h"

namespace weir::cpu {

struct CpuKernels {
  const RowKernels& rows;
  const Int8Kernels& int8;
  const FloatKernels& floats;
  const AttentionKernels& attention;
  const DeltaKernels& delta;
  const HeadKernels& head;
};

// One table for each instruction set, from kernel_table.cpp, that of AMX from linear_amx_kernels.cpp; the
// portable one exists everywhere.
namespace portable {
extern const CpuKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}
namespace avx512_vnni {
extern const CpuKernels kKernels;
}
namespace avx512_amx {
extern const CpuKernels kKernels;
}
#endif

}  // namespace weir::cpu
