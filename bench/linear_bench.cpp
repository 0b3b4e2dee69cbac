// Speed of the CPU's products at the shapes of Qwen3.6-35B-A3B, beside what the machine gives: a plain read
// of the same bytes for few rows, and a loop of nothing but byte products for many.
//
// Weights rotate through copies of more than half a gigabyte together, so that no cache keeps them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/cpu_features.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_steps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {
namespace {

constexpr int64_t kWeightBytes = int64_t{640} << 20;
constexpr int64_t kMaxRows = 512;

ThreadPool& pool() {
  static ThreadPool threads(cpu_features().hardware_threads);
  return threads;
}

// The CPU's steps in one instruction set. Weights are for the steps that packed them.
Steps& steps(Isa isa) {
  const auto make = [](Isa wanted) {
    auto made = *make_cpu_steps(pool(), wanted);
    static_cast<void>(made->reserve({kMaxRows, 4096, 12352, 0, 9, 257, 512}));
    return made;
  };
  static std::map<Isa, std::unique_ptr<Steps>> all;
  if (all[isa] == nullptr) all[isa] = make(isa);
  return *all[isa];
}

// Argument 0: the best instruction set; n: the n-th best.
Isa isa_of(int64_t argument) {
  std::vector<Isa> supported;
  for (const Isa isa : all_isas()) {
    if (cpu_features().supports(isa)) supported.push_back(isa);
  }
  const auto from_best = std::min(static_cast<size_t>(argument), supported.size() - 1);
  return supported[supported.size() - 1 - from_best];
}

std::vector<uint8_t> random_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<uint8_t>(random_words({1, 0, 0, static_cast<uint32_t>(i)})[0]);
  return bytes;
}

// Copies of one random matrix with groups of 64.
class Copies {
 public:
  Copies(Isa isa, int bits, int64_t rows, int64_t cols) {
    const std::vector<uint8_t> weight = random_bytes(static_cast<size_t>(rows * cols * bits / 8));
    const std::vector<uint16_t> scales(static_cast<size_t>(rows * cols / 64), 0x3c00);  // 2^-7 in bfloat16
    const auto* scale_bytes = reinterpret_cast<const std::byte*>(scales.data());
    const Matrix m{{Dtype::kBf16, bits, 64},
                   rows,
                   cols,
                   reinterpret_cast<const std::byte*>(weight.data()),
                   scale_bytes,
                   scale_bytes};
    for (int64_t bytes = 0; bytes < kWeightBytes; bytes += static_cast<int64_t>(m.bytes())) {
      copies_.push_back(*steps(isa).pack({&m, 1}, Use::kProjection));
    }
  }
  const Linear& next() { return *copies_[next_++ % copies_.size()]; }

 private:
  std::vector<std::unique_ptr<Linear>> copies_;
  size_t next_ = 0;
};

void report_bytes(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void plain_read(benchmark::State& state) {
  Buffer memory = *steps(isa_of(0)).allocate(kWeightBytes);
  std::memset(memory.data(), 1, memory.bytes());
  for (auto _ : state) {
    pool().run([&](int thread) {
      const Range part = part_of(kWeightBytes / 8, thread, pool().threads(), 8);
      const auto* words = static_cast<const uint64_t*>(memory.data());
      uint64_t sum = 0;
      for (int64_t i = part.begin; i < part.end; ++i) sum += words[i];
      benchmark::DoNotOptimize(sum);
    });
  }
  report_bytes(state, kWeightBytes);
}
BENCHMARK(plain_read)->UseRealTime()->Unit(benchmark::kMillisecond);

// y += x W^T with `rows` rows of activations.
void product(benchmark::State& state) {
  const Isa isa = isa_of(state.range(0));
  const auto bits = static_cast<int>(state.range(1));
  const int64_t outputs = state.range(2), cols = state.range(3), rows = state.range(4);
  Copies weights(isa, bits, outputs, cols);
  std::vector<float> x(static_cast<size_t>(rows * cols)), y(static_cast<size_t>(rows * outputs));
  for (size_t i = 0; i < x.size(); ++i) x[i] = random_uniform({2, 0, 0, static_cast<uint32_t>(i)}) - 0.5f;
  uint64_t bytes = 0;
  for (auto _ : state) {
    const Linear& w = weights.next();
    bytes = w.bytes();
    steps(isa).project_add({y.data(), rows, outputs}, {x.data(), rows, cols}, w);
  }
  report_bytes(state, static_cast<int64_t>(bytes));
  state.counters["Gop/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(state.iterations() * rows * outputs * cols), benchmark::Counter::kIsRate);
}
BENCHMARK(product)
    ->ArgNames({"isa", "bits", "out", "in", "rows"})
    ->Args({0, 4, 8192, 2048, 1})
    ->Args({0, 4, 12352, 2048, 1})
    ->Args({0, 4, 2048, 4096, 1})
    ->ArgsProduct({{0, 1}, {4}, {8192}, {2048}, {2, 4, 8, 16, 64, 256}})
    ->ArgsProduct({{0, 1}, {2, 3, 8}, {8192}, {2048}, {1, 4, 16, 256}})
    ->UseRealTime();

// One layer's 256 experts of 512, of which each row takes 8 and the shared one; routing is uniform.
class ExpertLayer {
 public:
  ExpertLayer(Isa isa, int bits) {
    const int64_t weights = kExpertWidth * kHidden;
    const std::vector<uint8_t> weight = random_bytes(static_cast<size_t>(weights * bits / 8));
    const std::vector<uint16_t> scales(static_cast<size_t>(weights / 64), 0x3c00);
    const auto matrix = [&](int64_t rows, int64_t cols) {
      const auto* scale_bytes = reinterpret_cast<const std::byte*>(scales.data());
      return Matrix{{Dtype::kBf16, bits, 64},
                    rows,
                    cols,
                    reinterpret_cast<const std::byte*>(weight.data()),
                    scale_bytes,
                    scale_bytes};
    };
    const ExpertSource expert{matrix(kExpertWidth, kHidden), matrix(kExpertWidth, kHidden),
                              matrix(kHidden, kExpertWidth)};
    moe_.experts = kExperts;
    moe_.top_k = kTopK;
    moe_.expert = *steps(isa).pack_experts(std::vector<ExpertSource>(kExperts + 1, expert));
  }
  static constexpr int64_t kHidden = 2048, kExpertWidth = 512, kExperts = 256, kTopK = 8, kSlots = 9;

  const MoeWeights& moe() const { return moe_; }

 private:
  MoeWeights moe_;
};

void experts(benchmark::State& state) {
  using L = ExpertLayer;
  const Isa isa = isa_of(state.range(0));
  const auto bits = static_cast<int>(state.range(1));
  static std::map<std::pair<Isa, int>, ExpertLayer> layers;
  const ExpertLayer& layer = layers.try_emplace({isa, bits}, isa, bits).first->second;
  const int64_t rows = state.range(2);
  std::vector<float> x(static_cast<size_t>(rows * L::kHidden), 0.5f),
      activated(static_cast<size_t>(rows * L::kSlots * L::kExpertWidth));
  std::vector<float> weights(static_cast<size_t>(rows * L::kSlots), 0.1f);
  std::vector<int32_t> chosen(weights.size());
  uint32_t draw = 0;
  uint64_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::set<int32_t> distinct;
    for (int64_t p = 0; p < rows * L::kSlots; ++p) {
      const auto first = static_cast<int32_t>(random_words({3, 0, 0, draw++})[0] % L::kExperts);
      const bool shared = p % L::kSlots == L::kTopK;
      chosen[static_cast<size_t>(p)] = shared ? L::kExperts : first;
      distinct.insert(chosen[static_cast<size_t>(p)]);
    }
    for (const int32_t e : distinct)
      bytes += layer.moe().expert->up_bytes(e) + layer.moe().expert->down_bytes(e);
    state.ResumeTiming();
    const Routing routing{chosen.data(), weights.data(), rows, L::kSlots};
    const Rows hidden{x.data(), rows, L::kHidden}, width{activated.data(), rows * L::kSlots, L::kExpertWidth};
    steps(isa).experts_up(width, hidden, routing, layer.moe());
    steps(isa).experts_down_add(hidden, width, routing, layer.moe());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["Gop/s"] = benchmark::Counter(
      6e-9 * static_cast<double>(state.iterations() * rows * L::kSlots * L::kHidden * L::kExpertWidth),
      benchmark::Counter::kIsRate);
}
BENCHMARK(experts)
    ->ArgNames({"isa", "bits", "rows"})
    ->ArgsProduct({{0, 1}, {4, 3, 2}, {1, 4, 16, 64, 256, 512}})
    ->UseRealTime();

#if defined(__x86_64__)
// Independent chains of vpdpbusd, 512 bits wide, on every thread.
__attribute__((target("avx512f,avx512vnni"))) void chains(int64_t count) {
  constexpr int kChains = 16;
  __m512i acc[kChains];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  const __m512i w = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < count; ++i) {
    for (__m512i& a : acc) a = _mm512_dpbusd_epi32(a, w, w);
  }
  for (__m512i& a : acc) benchmark::DoNotOptimize(a);
}

void byte_products(benchmark::State& state) {
  if (!cpu_features().avx512_vnni) return state.SkipWithError("this CPU has no AVX-512 VNNI");
  constexpr int64_t kCount = 100000;
  for (auto _ : state) pool().run([](int) { chains(kCount); });
  state.counters["Gop/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(state.iterations() * kCount * 16 * 64 * pool().threads()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(byte_products)->UseRealTime();
#endif

}  // namespace
}  // namespace weir

BENCHMARK_MAIN();
