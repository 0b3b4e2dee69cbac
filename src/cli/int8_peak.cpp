#include "cli/int8_peak.h"

#include <algorithm>
#include <vector>

#include "cli/bench.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/cpu/linear.h"

namespace weir::cli {
namespace {

constexpr int64_t kCols = 1024, kGroup = 64, kGroups = kCols / kGroup;
constexpr int64_t kBlockBytes = kGroups * (cpu::kBlockRows * kGroup + 2 * 2 * cpu::kBlockRows);  // of 8 bits
constexpr int64_t kProducts = 20'000;  // of one thread in one run: some 30 ms
constexpr int kRuns = 7;

// One thread's block of weights, all zero, and tile of activations, all one: the time does not depend on the
// values as long as sums neither overflow nor become denormal.
struct Operands {
  std::vector<uint8_t> block = std::vector<uint8_t>(kBlockBytes);
  std::vector<int8_t> q = std::vector<int8_t>(kCols * cpu::kLargestTile, 1);
  std::vector<float> scales = std::vector<float>(kGroups * cpu::kLargestTile, 1.0f);
  std::vector<float> out = std::vector<float>(cpu::kLargestTile * cpu::kBlockRows);

  void multiply(const cpu::CpuKernels& kernels, cpu::Container container, int64_t products) {
    const cpu::Tile tile{.count = kernels.int8.max_tile,
                         .cols = kCols,
                         .group = kGroup,
                         .q = q.data(),
                         .scale = scales.data(),
                         .sum = scales.data()};
    const cpu::ProductScope scope(kernels, tile.count);
    const cpu::Product product = kernels.int8.products[static_cast<int>(container)];
    for (int64_t i = 0; i < products; ++i) product(out.data(), block.data(), tile);
  }
};

// The median of several runs on all threads.
double measure(ThreadPool& pool, const cpu::CpuKernels& kernels, cpu::Container container) {
  std::vector<Operands> operands(static_cast<size_t>(pool.threads()));
  const double flops = 2.0 * static_cast<double>(kProducts * pool.threads()) *
                       static_cast<double>(cpu::kBlockRows * kCols * kernels.int8.max_tile);
  Sample rates;
  for (int run = 0; run <= kRuns; ++run) {
    const Stopwatch watch;
    pool.run(
        [&](int thread) { operands[static_cast<size_t>(thread)].multiply(kernels, container, kProducts); });
    if (run > 0) rates.values.push_back(flops / watch.seconds() * 1e-9);
  }
  return rates.median();
}

}  // namespace

double measure_int8_peak(ThreadPool& pool, Isa isa) {
  const cpu::CpuKernels& kernels = cpu::kernels_of(isa);
  return std::max(measure(pool, kernels, cpu::Container::kBits4),
                  measure(pool, kernels, cpu::Container::kBits8));
}

}  // namespace weir::cli
