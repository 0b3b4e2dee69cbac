// What the benches of both kinds of model share: options, samples, and the part of the report about the
// machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "cli/json_report.h"
#include "cli/options.h"
#include "kernels/observe/step_clock.h"

namespace weir::cli {

struct BenchOptions {
  ModelOptions model;
  BackendOptions backend;
  int64_t prompt = 512;
  int64_t generate = 32;
  bool generate_given = false;
  int64_t repeats = 5;
  bool json = false;
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Several measurements of one quantity; at least one.
struct Sample {
  std::vector<double> values;

  double median() const;
  // {median, slowest, fastest}: of speeds the fastest is the largest, of times the smallest.
  Report speeds_json() const;
  Report times_json() const;
};

// What a bench works on. `opening` has run since before the checkpoint was opened.
struct BenchModel {
  Checkpoint checkpoint;
  ThreadPool& pool;
  Stopwatch opening;
};

// A bench's report, and the same for people: tables in Markdown.
struct BenchResult {
  Report report;
  std::string text;
};

Result<BenchResult> bench_qwen(const BenchOptions& options, BenchModel model);
Result<BenchResult> bench_diffusion(const BenchOptions& options, BenchModel model);

// Passes over memory when bandwidth is measured.
inline constexpr int kBenchPasses = 7;

// Token ids spread over the vocabulary: what is measured does not depend on their meaning, but on which
// experts they reach.
std::vector<int32_t> token_ids(int64_t count, int64_t vocabulary);

// Version, CPU, threads, model, kernels, repeats, seconds of loading and read bandwidth in GB/s.
Report machine_json(const BenchOptions& options, const ThreadPool& pool, const std::string& kernels,
                    double load_seconds, double bandwidth);
std::string machine_text(const Report& report);

// Time and bytes a token of each kind of step; `bandwidth` in GB/s.
Report steps_json(const std::vector<StepCost>& costs, int64_t tokens, double bandwidth);
std::string steps_text(const Report& steps);

// "prefill 1234.56 tokens/s (1200.00 to 1250.00)" of {"tokens_per_second": {median, slowest, fastest}}.
std::string speed_text(const char* what, const Report& part);

}  // namespace weir::cli
