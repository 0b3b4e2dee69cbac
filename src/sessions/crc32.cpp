#include "sessions/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace weir {
namespace {

constexpr size_t kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// Table k holds what a byte does to the sum k bytes later, so that eight bytes are taken at once (Kounavis,
// Berry, "Novel table lookup-based algorithms for high-performance CRC generation", 2008).
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t sum = i;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? 0xEDB88320u : 0u);
    tables[0][i] = sum;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[k - 1][i];
      tables[k][i] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t sum = ~0u;
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kSlices);
    word ^= sum;
    sum = 0;
    for (size_t k = 0; k < kSlices; ++k) sum ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 255];
  }
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ kTables[0][(sum ^ static_cast<uint32_t>(byte)) & 255];
  }
  return ~sum;
}

}  // namespace weir
