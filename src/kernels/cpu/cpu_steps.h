// The CPU's table of steps.
//
// Rounding, beyond float32: activations that meet an affine matrix are rounded to 8 bits, each row in the
// groups of that matrix (row_kernels.h, quantize), except in routers; keys and values are rounded to
// bfloat16. A row's bits are the same for every instruction set, number of threads and company of other rows.
#pragma once

#include <memory>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/steps.h"

namespace weir {

namespace cpu {

struct CpuKernels;

// The kernels of an instruction set, which this CPU must have to run them.
const CpuKernels& kernels_of(Isa isa);

}  // namespace cpu

// The pool outlives the steps. Error: kDevice when this CPU lacks the instruction set.
Result<std::unique_ptr<Steps>> make_cpu_steps(ThreadPool& pool, Isa isa);

}  // namespace weir
