#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "kernels/cpu/memory.h"

namespace weir::cpu {
namespace {

TEST(CpuMemory, IsZeroedAndAlignedAtEverySize) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{5} << 20}) {
    const auto buffer = allocate_pages(bytes);
    ASSERT_TRUE(buffer.ok());
    ASSERT_GE(buffer->bytes(), bytes);
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    EXPECT_EQ(address % (bytes > size_t{4} << 20 ? size_t{2} << 20 : 64), 0u) << bytes;
    auto* data = static_cast<uint8_t*>(buffer->data());
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], 0);
    for (size_t i = 0; i < bytes; ++i) data[i] = 1;
  }
}

TEST(CpuMemory, WhatNoMachineHasIsAnErrorThatNamesTheSize) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 60}) {
    const auto buffer = allocate_pages(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, Code::kOutOfMemory);
    EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::cpu
