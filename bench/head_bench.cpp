// Speed of the CPU's block-diffusion head at the shape of DiffusionGemma-26B-A4B (262144 tokens, hidden size
// 2816, 8 bits), beside what the machine gives: loops of nothing but fused multiply-adds and of nothing but
// byte products.
//
// Rows are flat (logits spread by 1, so that no token is negligible and expected embeddings are full float
// products), peaked (by 8), or certain (one token is far ahead).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/cpu_features.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/cpu/head.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {
namespace {

constexpr int64_t kVocabulary = 262144, kHidden = 2816, kGroup = 64, kMaxRows = 256;
constexpr double kWeightSpread = 74.0 / 4096;  // of a uniform byte (less 127.5) times the scale

ThreadPool& pool() {
  static ThreadPool threads(cpu_features().hardware_threads);
  return threads;
}

const cpu::CpuKernels& kernels() {
#if defined(__x86_64__)
  if (cpu_features().supports(Isa::kAvx512Vnni)) return cpu::avx512_vnni::kKernels;
  if (cpu_features().supports(Isa::kAvx512)) return cpu::avx512::kKernels;
  if (cpu_features().supports(Isa::kAvx2)) return cpu::avx2::kKernels;
#endif
  return cpu::portable::kKernels;
}

const cpu::PackedVocabulary& vocabulary() {
  static const std::unique_ptr<Vocabulary> packed = [] {
    std::vector<uint64_t> weight(kVocabulary * kHidden / 8);
    uint64_t state = 1;
    for (uint64_t& word : weight) {  // xorshift64*
      state ^= state >> 12;
      state ^= state << 25;
      state ^= state >> 27;
      word = state * 0x2545F4914F6CDD1Du;
    }
    const std::vector<uint16_t> scales(kVocabulary * kHidden / kGroup, 0x3980);  // 2^-12 in bfloat16
    const std::vector<uint16_t> biases(scales.size(), 0xbcff);                   // -127.5 * 2^-12
    const Matrix m{{Dtype::kBf16, 8, kGroup},
                   kVocabulary,
                   kHidden,
                   reinterpret_cast<const std::byte*>(weight.data()),
                   reinterpret_cast<const std::byte*>(scales.data()),
                   reinterpret_cast<const std::byte*>(biases.data())};
    return *cpu::pack_vocabulary(m, 1, kernels(), "bench", pool());
  }();
  return static_cast<const cpu::PackedVocabulary&>(*packed);
}

cpu::Head& head() {
  static cpu::Head made(kernels(), pool());
  static const bool ready = [] {
    Limits limits;
    limits.rows = kMaxRows;
    limits.hidden = kHidden;
    return made.reserve(limits).ok();
  }();
  benchmark::DoNotOptimize(ready);
  return made;
}

Buffer owned_floats(int64_t count) {
  auto* data = new float[static_cast<size_t>(count)]();
  return {data, static_cast<size_t>(count) * sizeof(float),
          [](void* p, size_t) { delete[] static_cast<float*>(p); }};
}

enum Shape { kFlat, kPeaked, kCertain };

std::vector<float> residuals(int64_t rows, Shape shape) {
  std::vector<float> x(static_cast<size_t>(rows * kHidden));
  for (size_t i = 0; i < x.size(); ++i) x[i] = random_uniform({2, 0, 0, static_cast<uint32_t>(i)}) - 0.5f;
  for (int64_t r = 0; shape == kCertain && r < rows; ++r) {
    vocabulary().look_up(x.data() + r * kHidden, static_cast<int32_t>(16 * r));
  }
  return x;
}

void norm_head(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const auto soft_tokens = static_cast<int32_t>(state.range(1));
  const auto shape = static_cast<Shape>(state.range(2));
  const double spread = shape == kPeaked ? 8 : 1;
  std::vector<float> x = residuals(rows, shape);
  Vector gain{owned_floats(kHidden), kHidden};
  std::fill_n(gain.values.floats(), kHidden,
              static_cast<float>(spread / (kWeightSpread * std::sqrt(double{kHidden}))));
  CanvasState canvas;
  canvas.soft = owned_floats(rows * kHidden);
  std::vector<int32_t> slots;
  std::vector<Inquiry> inquiries;
  for (int32_t r = 0; r < rows; ++r) {
    slots.push_back(r);
    inquiries.push_back({r, 0.6f, {3, 0, 0, static_cast<uint32_t>(r)}, soft_tokens});
  }
  const CanvasSegment segment{nullptr, &canvas, 0, rows, 0, slots};
  CanvasBatch batch;
  batch.canvases = {&segment, 1};
  batch.inquiries = inquiries;
  std::vector<Belief> beliefs(inquiries.size());
  const auto run = [&] {
    head().run(beliefs.data(), {x.data(), rows, kHidden}, 0, gain, 1e-6f, vocabulary(), 30, batch);
  };
  run();  // touches all scratch
  for (auto _ : state) run();
  const double product = 2e-9 * static_cast<double>(state.iterations() * rows * kVocabulary * kHidden);
  state.counters["Gop/s"] = benchmark::Counter(product, benchmark::Counter::kIsRate);
  state.counters["entropy"] = beliefs[0].entropy;
}
BENCHMARK(norm_head)
    ->ArgNames({"rows", "soft", "shape"})
    ->ArgsProduct({{64, 256}, {0, 64, kAllTokens}, {kFlat, kPeaked, kCertain}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

#if defined(__x86_64__)
// Independent chains of 512 bits on every thread.
constexpr int kChains = 16;
constexpr int64_t kCount = 100000;

__attribute__((target("avx512f"))) void fma_chains() {
  __m512 acc[kChains];
  for (__m512& a : acc) a = _mm512_setzero_ps();
  const __m512 w = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kCount; ++i) {
    for (__m512& a : acc) a = _mm512_fmadd_ps(a, w, w);
  }
  for (__m512& a : acc) benchmark::DoNotOptimize(a);
}

__attribute__((target("avx512f,avx512vnni"))) void byte_chains() {
  __m512i acc[kChains];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  const __m512i w = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < kCount; ++i) {
    for (__m512i& a : acc) a = _mm512_dpbusd_epi32(a, w, w);
  }
  for (__m512i& a : acc) benchmark::DoNotOptimize(a);
}

void peak(benchmark::State& state, void (*chains)(), int64_t products) {
  if (!cpu_features().avx512_vnni) return state.SkipWithError("this CPU has no AVX-512 VNNI");
  for (auto _ : state) pool().run([&](int) { chains(); });
  const double operations = 2e-9 * static_cast<double>(kCount * kChains * products * pool().threads());
  state.counters["Gop/s"] =
      benchmark::Counter(operations * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(peak, fma, fma_chains, 16)->UseRealTime();
BENCHMARK_CAPTURE(peak, bytes, byte_chains, 64)->UseRealTime();
#endif

}  // namespace
}  // namespace weir

BENCHMARK_MAIN();
