#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/shared_pages.h"

namespace weir::cpu {
namespace {

TEST(CpuMemory, IsZeroedAndAlignedAtEverySize) {
  constexpr size_t kKi = 1024;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, 64 * kKi - 1, 64 * kKi, 559 * kKi + 3,
                             1024 * kKi, 1024 * kKi + 1, 5120 * kKi + 7}) {
    const auto buffer = allocate_pages(bytes);
    ASSERT_TRUE(buffer.ok());
    ASSERT_GE(buffer->bytes(), bytes);
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    EXPECT_EQ(address % (bytes > kHugePage / 2 ? kHugePage : 64), 0u) << bytes;
    auto* data = static_cast<uint8_t*>(buffer->data());
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], 0);
    for (size_t i = 0; i < bytes; ++i) data[i] = 1;
  }
}

// Each block is filled with a number of its own, which must be there when it is given back.
TEST(CpuMemory, BlocksThatComeAndGoAreZeroedAndNeverOverlap) {
  struct Block {
    Buffer buffer;
    uint32_t number;
  };
  const size_t sizes[] = {64 << 10, 98305, 512 << 10, (512 << 10) + 1, 1 << 20};
  std::vector<Block> blocks;
  const auto words = [](const Buffer& b) {
    return std::span(static_cast<uint32_t*>(b.data()), b.bytes() / sizeof(uint32_t));
  };
  for (uint32_t step = 1; step <= 600; ++step) {
    const auto draw = random_words({4, 0, 0, step});
    if (draw[0] % 5 < 3 || blocks.empty()) {
      auto made = allocate_pages(sizes[draw[1] % std::size(sizes)]);
      ASSERT_TRUE(made.ok());
      for (const uint32_t word : words(*made)) ASSERT_EQ(word, 0u);
      std::ranges::fill(words(*made), step);
      blocks.push_back({std::move(*made), step});
      continue;
    }
    const size_t i = draw[1] % blocks.size();
    for (const uint32_t word : words(blocks[i].buffer)) ASSERT_EQ(word, blocks[i].number);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const Block& b : blocks) {
    for (const uint32_t word : words(b.buffer)) ASSERT_EQ(word, b.number);
  }
}

TEST(CpuMemory, ThreadsMayTakeAndGiveBlocksAtOnce) {
  ThreadPool pool(4);
  std::atomic<int> wrong{0};
  pool.run([&](int thread) {
    for (int i = 0; i < 500; ++i) {
      const auto block = allocate_pages(size_t{256} << 10);
      auto* bytes = static_cast<volatile uint8_t*>(block->data());
      if (bytes[0] != 0) ++wrong;
      bytes[0] = static_cast<uint8_t>(thread + 1);
      std::this_thread::yield();
      if (bytes[0] != thread + 1) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
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
