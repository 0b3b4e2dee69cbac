// weir_device_bench [layers] [long context] [all|floor|decode|once]: speed on synthetic weights of the true
// shapes. `floor` times launches alone; `decode` leaves prefill out; with `once` each kind of pass runs once,
// for a profiler.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "checkpoint/synthetic.h"
#include "device/ablations.h"
#include "device/launch_floor.h"
#include "device/random_weights.h"
#include "device/step_bench.h"
#include "kernels/cuda/cuda_steps.h"
#include "models/qwen/model.h"

namespace weir::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes read and written by a large copy within the GPU, per second.
double copy_peak() {
  constexpr size_t kBytes = size_t{4} << 30;
  void *from = nullptr, *to = nullptr;
  if (cudaMalloc(&from, kBytes) != cudaSuccess || cudaMalloc(&to, kBytes) != cudaSuccess) return 0;
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  cudaMemset(from, 0x5a, kBytes);
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    cudaEventRecord(start);
    cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start, end);
    if (i >= 2) seconds.push_back(milliseconds * 1e-3);
  }
  cudaFree(from);
  cudaFree(to);
  return 2.0 * kBytes / median(seconds);
}

std::vector<int32_t> random_tokens(int64_t count, int64_t vocabulary) {
  Random random(11);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random.below(vocabulary)));
  return tokens;
}

struct Session {
  static constexpr int64_t kTokens = 64;

  qwen::Model& model;
  double peak;

  bool run(SequenceState& state, std::span<const int32_t> tokens) {
    const std::vector<int32_t> wanted{static_cast<int32_t>(tokens.size()) - 1};
    const Segment segment{&state, 0, static_cast<int64_t>(tokens.size())};
    const auto logits = model.run({tokens, {&segment, 1}, wanted});
    if (!logits.ok()) std::printf("a pass failed: %s\n", logits.error().message.c_str());
    return logits.ok();
  }

  void prefill(int64_t length, int repeats) {
    const auto tokens = random_tokens(length, model.config().vocabulary);
    std::vector<double> seconds;
    for (int i = 0; i <= repeats; ++i) {
      SequenceState state = std::move(*model.new_sequence());
      const double start = now();
      for (int64_t at = 0; at < length; at += model.max_rows()) {
        const int64_t count = std::min(model.max_rows(), length - at);
        if (!run(state, std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count))))
          return;
      }
      if (i > 0 || repeats == 0) seconds.push_back(now() - start);
    }
    std::printf("prefill %6ld tokens: %9.2f ms  %9.0f tokens/s\n", length, 1e3 * median(seconds),
                static_cast<double>(length) / median(seconds));
  }

  void decode(int64_t depth, int rounds) {
    SequenceState state = std::move(*model.new_sequence());
    const auto tokens = random_tokens(depth, model.config().vocabulary);
    for (int64_t at = 0; at < depth; at += model.max_rows()) {
      const int64_t count = std::min(model.max_rows(), depth - at);
      if (!run(state, std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count)))) return;
    }
    const int64_t page = kKvPage;
    // Pages for everything that follows, so that one recorded graph serves all of it.
    for (KvCache& cache : state.kv) {
      while (static_cast<int64_t>(cache.pages.size()) * page <
             depth + (rounds + 2) * (3 * kTokens + 16) + page) {
        cache.pages.push_back(std::move(*model.steps().allocate(model.steps().kv_page_bytes(attention()))));
      }
    }
    std::vector<double> greedy, sampled, truncated, by_host;
    for (int round = 0; round <= rounds; ++round) {
      ChoiceRules rules;
      rules.vocabulary = model.config().vocabulary;
      sampled.push_back(choose(state, rules));
      rules.top_k = 20;
      rules.top_p = 0.95f;
      truncated.push_back(choose(state, rules));
      rules.temperature = 0;
      greedy.push_back(choose(state, rules));
      const double start = now();
      for (int i = 0; i < 8; ++i) run(state, std::vector<int32_t>{5});
      by_host.push_back((now() - start) / 8);
    }
    for (auto* seconds : {&greedy, &sampled, &truncated, &by_host}) seconds->erase(seconds->begin());
    const double seconds = median(greedy), bytes = static_cast<double>(model.bytes_per_token(depth));
    const CudaReport report = cuda_report(model.steps());
    std::printf(
        "decode at %6ld: %8.1f us  %7.1f tokens/s  %6.0f GB/s  %4.1f %% of copy peak; sampled %8.1f us, "
        "top-k "
        "and top-p %8.1f us, logits to the host %8.1f us; %zu launches a token, %zu graphs\n",
        depth, 1e6 * seconds, 1 / seconds, bytes / seconds * 1e-9, 100 * bytes / seconds / peak,
        1e6 * median(sampled), 1e6 * median(truncated), 1e6 * median(by_host), report.launches_per_token,
        report.graphs);
  }

  // Seconds a token, each chosen on the device and fed back there; the host reads one step behind.
  double choose(SequenceState& state, const ChoiceRules& rules) {
    const std::vector<int32_t> token{5}, wanted{0};
    const Segment segment{&state, 0, 1};
    auto chooser = model.steps().make_chooser(rules, token);
    if (!chooser.ok() || *chooser == nullptr) return std::printf("no choice on the device\n"), 0;
    Batch batch{token, {&segment, 1}, wanted};
    double start = 0;
    for (int i = 0; i <= kTokens; ++i) {
      if (const Status status = model.queue(batch, **chooser); !status.ok())
        return std::printf("decode failed: %s\n", status.error().message.c_str()), 0;
      batch.chosen = chooser->get();
      if (i > 0 && !(*chooser)->take().ok()) return std::printf("decode failed\n"), 0;
      if (i == 0) start = now();
    }
    if (!(*chooser)->take().ok()) return 0;
    return (now() - start) / kTokens;
  }

  // Choices alone, from the same logits.
  void choices() {
    const int64_t vocabulary = model.config().vocabulary;
    Random random(5);
    const auto values = random.values(vocabulary, 4.0f);
    const Buffer memory = std::move(*model.steps().allocate(values.size() * sizeof(float)));
    model.steps().copy_in(memory.data(), values.data(), values.size() * sizeof(float));
    const auto time = [&](const char* name, const ChoiceRules& rules) {
      auto chooser = model.steps().make_chooser(rules, {});
      if (!chooser.ok() || *chooser == nullptr) return;
      double start = 0;
      for (int i = 0; i <= 200; ++i) {
        (*chooser)->choose({memory.data(), 1, vocabulary});
        if (i == 0) start = now();
        if (i > 0 && !(*chooser)->take().ok()) return;
      }
      std::printf("  choice, %-22s %7.1f us\n", name, (now() - start) / 200 * 1e6);
    };
    ChoiceRules rules;
    rules.vocabulary = vocabulary;
    time("temperature", rules);
    rules.top_p = 0.95f;
    time("top-p", rules);
    rules.top_k = 20;
    time("top-k and top-p", rules);
    rules.frequency_penalty = 0.5f;
    time("penalties too", rules);
    rules.temperature = 0;
    time("greedy with penalties", rules);
    rules.frequency_penalty = 0;
    time("greedy", rules);
  }

  // One token after a prefill of `depth`, for a profiler.
  void once(int64_t depth) {
    SequenceState state = std::move(*model.new_sequence());
    run(state, random_tokens(depth, model.config().vocabulary));
    for (int i = 0; i < 2; ++i) run(state, std::vector<int32_t>{5});
  }

  void steps(int64_t depth, int64_t rows, int repeats) {
    SequenceState state = std::move(*model.new_sequence());
    state.position = depth;
    for (KvCache& cache : state.kv) {
      while (static_cast<int64_t>(cache.pages.size()) * kKvPage < depth + rows) {
        cache.pages.push_back(std::move(*model.steps().allocate(model.steps().kv_page_bytes(attention()))));
      }
    }
    std::printf("steps of %ld rows at %ld (median of %d, all layers of a kind together)\n", rows, depth,
                repeats);
    double total = 0;
    for (const StepTime& t : time_steps(model, state, rows, repeats)) {
      total += t.seconds;
      std::printf("  %-18s x %2ld %9.2f us each %9.1f us  %8.2f MB %7.0f GB/s %5.1f %% of copy peak\n",
                  t.name.c_str(), t.calls, 1e6 * t.seconds / static_cast<double>(t.calls), 1e6 * t.seconds,
                  static_cast<double>(t.bytes) * 1e-6, static_cast<double>(t.bytes) / t.seconds * 1e-9,
                  100 * static_cast<double>(t.bytes) / t.seconds / peak);
    }
    std::printf("  %-18s      %31.1f us\n", "sum", 1e6 * total);
  }

  const AttentionWeights& attention() const {
    for (const qwen::Layer& layer : model.weights().layers) {
      if (layer.attention) return *layer.attention;
    }
    std::abort();
  }
};

int run(int64_t layers, int64_t long_context, const std::string& what) {
  auto steps = make_cuda_steps(0);
  if (!steps.ok()) {
    std::printf("%s\n", steps.error().message.c_str());
    return 4;
  }
  const double peak = copy_peak();
  std::printf("%s, copy peak %.0f GB/s (read and written)\n", (*steps)->name().c_str(), peak * 1e-9);
  if (what == "all" || what == "floor") print_launch_floor();
  if (what == "floor") return 0;
  double start = now();
  auto checkpoint = synthetic_checkpoint("synthetic:qwen3.6-35b-a3b,layers=" + std::to_string(layers));
  if (!checkpoint.ok()) return std::printf("%s\n", checkpoint.error().message.c_str()), 1;
  std::printf("synthetic checkpoint of %ld layers: %.1f s\n", layers, now() - start);
  start = now();
  auto model =
      qwen::Model::load(std::move(*checkpoint), std::move(*steps), {.max_rows = 4096, .max_wanted = 8}, {});
  if (!model.ok()) return std::printf("%s\n", model.error().message.c_str()), 1;
  if (const Status status = (*model)->steps().finish(); !status.ok())
    return std::printf("%s\n", status.error().message.c_str()), 1;
  std::printf("loaded in %.1f s\n", now() - start);

  Session session{**model, peak};
  if (what == "once") {
    session.prefill(4096, 0);
    session.once(512);
    return 0;
  }
  session.decode(0, 5);
  session.choices();
  session.steps(256, 1, 20);
  if (what == "all") {
    session.prefill(512, 3);
    session.prefill(4096, 3);
    session.steps(0, 4096, 3);
    session.steps(0, 512, 3);
    print_ablations(**model);
  }
  if (long_context > 0) {
    if (what == "all") session.prefill(long_context, 0);
    session.decode(long_context, 3);
    session.steps(long_context, 1, 10);
  }
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return weir::bench::run(argc > 1 ? std::atol(argv[1]) : 40, argc > 2 ? std::atol(argv[2]) : 32768,
                          argc > 3 ? argv[3] : "all");
}
