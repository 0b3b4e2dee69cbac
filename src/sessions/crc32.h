// The checksum of stored files: CRC-32 as in zip and PNG (ISO 3309, polynomial 0xEDB88320 reflected).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir {

uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace weir
