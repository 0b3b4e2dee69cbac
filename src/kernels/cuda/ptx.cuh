// The instructions that CUDA C++ has no name for: asynchronous copies, matrix loads, tensor core products and
// programmatic dependent launch (PTX ISA 8.x, sm_80 and later; the launch control is sm_90).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace weir::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes from global to shared memory, both 16-byte aligned, not through L1.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The same of the first `bytes`, 16 or 0; the others become zero, and their memory is not read.
__device__ __forceinline__ void copy_async_of(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async_or_zero(uint32_t to, const void* from, bool real) {
  copy_async_of(to, from, real ? 16 : 0);
}

__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `kPending` of this thread's latest groups are under way.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8 and receives of
// each matrix row l / 4, columns 2 (l % 4) and the next.
__device__ __forceinline__ void load_matrices(uint32_t out[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}

// The same of the matrices' transposes.
__device__ __forceinline__ void load_matrices_transposed(uint32_t out[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}

// Stores four 8 x 8 matrices transposed; lane l gives the address of row l % 8 of the stored matrix l / 8.
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, const uint32_t v[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

// c[16, 8] += a[16, 16] b[16, 8] in bf16 with float32 sums. With g = lane / 4 and t = lane % 4: a0, a2 are
// row g, columns 2t and 2t + 8 (and the next one); a1, a3 row g + 8; b0, b1 rows 2t and 2t + 8 of column g;
// c0, c1 row g, columns 2t and 2t + 1; c2, c3 row g + 8.
__device__ __forceinline__ void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c[16, 8] += a[16, 32] b[32, 8], unsigned bytes times signed bytes, exactly: a0, a2 are row g, columns 4t ..
// and 4t + 16 ..; a1, a3 row g + 8; b0, b1 rows 4t .. and 4t + 16 .. of column g; c as above.
__device__ __forceinline__ void multiply_add_bytes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Waits until the kernel before this one has finished and its writes are visible. Rule of this backend: every
// kernel waits, and lets the next one start only after its own wait. So what a kernel reads before the wait
// may come from any kernel but the one just before it. Starting later ones still earlier was measured and
// lost (docs/kernels/cuda_decode.md).
__device__ __forceinline__ void wait_for_previous() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ void let_next_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// A barrier of one group of warps of a block; number 0 is that of the block.
__device__ __forceinline__ void barrier_of_group(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Barriers in shared memory, 8 bytes each: a phase ends when the announced number of threads has arrived. A
// wait names the phase by its parity, 0 for the first; the one "before the first", 1, has ended.
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity) {
  uint32_t ended = 0;
  while (ended == 0) {
    asm volatile(
        "{\n.reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n}"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// In a cluster: barriers that other blocks' stores end. After barrier_init come barrier_init_done and a
// barrier of the cluster; barrier_expect arrives once and announces bytes that store_async brings.
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// What lies at this address in the cluster's first block.
__device__ __forceinline__ uint32_t in_first_block(uint32_t address) {
  uint32_t out;
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(out) : "r"(address));
  return out;
}
// Both in the same block.
__device__ __forceinline__ void store_async(uint32_t to, float value, uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}

// Four warps pass registers on to others of their block: each thread's count, a multiple of 8.
template <int kCount>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A barrier of the blocks of a cluster that orders no memory: it says that the others have come this far.
__device__ __forceinline__ void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float low_float(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float high_float(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

// 2^x to 2^-22 of it, 0 below the smallest normal number.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}
__device__ __forceinline__ float silu(float x) {
  return x * sigmoid(x);
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace weir::cuda
