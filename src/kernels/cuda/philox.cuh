// The random numbers of base/random.h on the device: Philox 4x32-10 (Salmon et al. 2011).
#pragma once

#include <cstdint>

#include "base/random.h"

namespace weir::cuda {

// The first word of random_words({seed, sequence, step, 0, Purpose::kSampleToken}).
__device__ __forceinline__ uint32_t random_word(uint64_t seed, uint32_t sequence, uint32_t step) {
  uint32_t c0 = sequence, c1 = step, c2 = 0, c3 = static_cast<uint32_t>(Purpose::kSampleToken);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

}  // namespace weir::cuda
