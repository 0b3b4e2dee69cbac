#include "base/random.h"

namespace weir {
namespace {

// Multipliers and Weyl increments of Philox 4x32 (Salmon et al. 2011, table 2).
constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

}  // namespace

std::array<uint32_t, 4> random_words(const DrawKey& key) {
  std::array<uint32_t, 4> c{key.block, key.step, key.position, static_cast<uint32_t>(key.purpose)};
  auto k0 = static_cast<uint32_t>(key.seed);
  auto k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMul0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMul1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

float random_uniform(const DrawKey& key) {
  return static_cast<float>(random_words(key)[0] >> 8) * 0x1p-24f;
}

}  // namespace weir
