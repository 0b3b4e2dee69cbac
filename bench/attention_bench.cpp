// Speed of the CPU's attend and delta_rule in the shapes of Qwen3.6-35B-A3B. `bytes` counts what the step's
// floor counts: keys and values once for each token, the recurrent state read and written once for each
// token. plain_read is the yardstick: the same number of bytes, only added up.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/delta_rule.h"
#include "kernels/cpu/kernels.h"

namespace weir {
namespace {

const cpu::CpuKernels& kernels() {
#if defined(__x86_64__)
  if (cpu_features().supports(Isa::kAvx512)) return cpu::avx512::kKernels;
  if (cpu_features().supports(Isa::kAvx2)) return cpu::avx2::kKernels;
#endif
  return cpu::portable::kKernels;
}

// A deterministic pattern of small numbers.
Buffer filled_floats(int64_t count) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 63) / 64 * 64;
  Buffer buffer(std::aligned_alloc(64, bytes), bytes, [](void* data, size_t) { std::free(data); });
  for (int64_t i = 0; i < count; ++i) buffer.floats()[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
  return buffer;
}

Vector filled_vector(int64_t count) {
  return {filled_floats(count), count};
}

void report(benchmark::State& state, int64_t tokens, double bytes_a_token) {
  using benchmark::Counter;
  const auto total = static_cast<double>(state.iterations() * tokens);
  state.counters["bytes"] = Counter(bytes_a_token * total, Counter::kIsRate);
  state.counters["token"] = Counter(total, Counter::kIsRate | Counter::kInvert);
}

void plain_read(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  ThreadPool pool(static_cast<int>(state.range(1)));
  const Buffer buffer = filled_floats(bytes / 4);
  std::vector<uint64_t> sums(static_cast<size_t>(pool.threads()) * 8);
  for (auto _ : state) {
    pool.run([&](int thread) {
      const Range mine = part_of(bytes / 8, thread, pool.threads(), 64);
      const auto* words = static_cast<const uint64_t*>(buffer.data());
      uint64_t lanes[32] = {};
      for (int64_t i = mine.begin; i + 32 <= mine.end; i += 32) {
        for (int64_t j = 0; j < 32; ++j) lanes[j] += words[i + j];
      }
      for (const uint64_t lane : lanes) sums[static_cast<size_t>(thread) * 8] += lane;
    });
  }
  benchmark::DoNotOptimize(sums.data());
  report(state, 1, static_cast<double>(bytes));
}

// `rows` tokens from position `depth` on, one attention layer.
void attend(benchmark::State& state) {
  const int64_t rows = state.range(0), depth = state.range(1);
  ThreadPool pool(static_cast<int>(state.range(2)));
  AttentionWeights w;
  w.heads = 16;
  w.kv_heads = 2;
  w.head_dim = 256;
  w.rotary_dim = 64;
  w.rope_theta = 1e7f;
  w.norm_epsilon = 1e-6f;
  w.q_norm = filled_vector(w.head_dim);
  w.k_norm = filled_vector(w.head_dim);
  const int64_t in_width = 2 * (w.heads + w.kv_heads) * w.head_dim, out_width = w.heads * w.head_dim;
  const Buffer in = filled_floats(rows * in_width), out = filled_floats(rows * out_width);
  SequenceState sequence;
  sequence.position = depth;
  sequence.kv.emplace_back();
  for (int64_t p = 0; p < depth + rows; p += kKvPage) {
    Buffer page = filled_floats(static_cast<int64_t>(cpu::kv_page_bytes(w)) / 4);
    for (size_t i = 0; i < page.bytes() / 2; ++i) {
      static_cast<uint16_t*>(page.data())[i] = static_cast<uint16_t>(0x3f00 + i % 100);
    }
    sequence.kv[0].pages.push_back(std::move(page));
  }
  Limits limits;
  limits.rows = rows;
  limits.widest = in_width;
  const Buffer scratch =
      filled_floats(static_cast<int64_t>(cpu::attention_scratch_bytes(limits, pool.threads())) / 4);
  const Segment segment{&sequence, 0, rows};
  for (auto _ : state) {
    cpu::attend({out.data(), rows, out_width}, {in.data(), rows, in_width}, w, {{}, {&segment, 1}, {}}, 0,
                kernels().attention, pool, scratch.data());
  }
  const double positions = static_cast<double>(depth) + static_cast<double>(rows + 1) / 2;
  report(state, rows, positions * static_cast<double>(4 * w.kv_heads * w.head_dim));
}

// `rows` tokens, one DeltaNet layer of key_heads x value_heads of 128 x 128. As a model has many layers, the
// states of `layers` of them take turns.
void delta_rule(benchmark::State& state) {
  const int64_t rows = state.range(0), layers = 16;
  ThreadPool pool(static_cast<int>(state.range(1)));
  DeltaWeights w;
  w.key_heads = 16;
  w.value_heads = 32;
  w.key_dim = w.value_dim = 128;
  w.taps = 4;
  w.norm_epsilon = 1e-6f;
  w.conv = filled_vector(w.taps * w.channels());
  w.decay = filled_vector(w.value_heads);
  w.dt_bias = filled_vector(w.value_heads);
  w.norm = filled_vector(w.value_dim);
  for (int64_t h = 0; h < w.value_heads; ++h) w.decay.values.floats()[h] = 1;
  const int64_t in_width = w.channels() + w.value_heads * (w.value_dim + 2);
  const int64_t out_width = w.value_heads * w.value_dim;
  const Buffer in = filled_floats(rows * in_width), out = filled_floats(rows * out_width);
  SequenceState sequence;
  for (int64_t i = 0; i < layers; ++i) {
    sequence.delta.push_back(
        {filled_floats(w.value_heads * w.key_dim * w.value_dim), filled_floats((w.taps - 1) * w.channels())});
  }
  Limits limits;
  limits.rows = rows;
  limits.widest = in_width;
  const Buffer scratch =
      filled_floats(static_cast<int64_t>(cpu::delta_rule_scratch_bytes(limits, pool.threads())) / 4);
  const Segment segment{&sequence, 0, rows};
  int64_t layer = 0;
  for (auto _ : state) {
    cpu::delta_rule({out.data(), rows, out_width}, {in.data(), rows, in_width}, w, {{}, {&segment, 1}, {}},
                    layer++ % layers, kernels().delta, pool, scratch.data());
  }
  report(state, rows, static_cast<double>(8 * w.value_heads * w.key_dim * w.value_dim));
}

// bytes, threads: the keys and values of 32768 positions.
BENCHMARK(plain_read)->Args({64 << 20, 1})->Args({64 << 20, 2})->UseRealTime();
// rows, depth, threads
BENCHMARK(attend)
    ->ArgsProduct({{1}, {512, 4096, 32768}, {1, 2}})
    ->ArgsProduct({{8}, {4096}, {1, 2}})
    ->ArgsProduct({{512}, {0, 4096}, {1, 2}})
    ->UseRealTime();
// rows, threads
BENCHMARK(delta_rule)->ArgsProduct({{1, 512}, {1, 2}})->UseRealTime();

}  // namespace
}  // namespace weir

BENCHMARK_MAIN();
