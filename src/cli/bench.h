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
#include "cli/line_chart.h"
#include "cli/options.h"
#include "kernels/observe/step_clock.h"

namespace weir::cli {

struct BenchOptions {
  ModelOptions model;
  BackendOptions backend;
  std::vector<int64_t> prompts{512};                // ascending
  std::vector<int64_t> depths;                      // ascending; none: behind the prompts
  std::vector<int64_t> rows{16, 32, 64, 128, 256};  // of denoising passes
  int64_t generate = 32;
  bool prompts_given = false, depths_given = false, generate_given = false, rows_given = false;
  int64_t repeats = 5;
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

struct PrefillSpeed {
  int64_t tokens = 0;
  Sample speed;                 // tokens per second
  std::vector<StepCost> steps;  // of the last repeat
};

// What a bench works on. `opening` has run since before the checkpoint was opened.
struct BenchModel {
  Checkpoint checkpoint;
  ThreadPool& pool;
  Stopwatch opening;
};

// A bench's report, and the same for people: tables in Markdown, and charts.
struct BenchResult {
  Report report;
  std::string text;
  std::vector<ChartPanel> charts;
};

Result<BenchResult> bench_qwen(const BenchOptions& options, BenchModel model);
Result<BenchResult> bench_diffusion(const BenchOptions& options, BenchModel model);

// The product of 4-bit experts with rows of activations, as a function of the rows, at the shapes of both
// models; no model is loaded.
Result<BenchResult> bench_roofline(const BenchOptions& options);

// Passes over memory when bandwidth is measured.
inline constexpr int kBenchPasses = 7;

// Token ids spread over the vocabulary: what is measured does not depend on their meaning, but on which
// experts they reach.
std::vector<int32_t> token_ids(int64_t count, int64_t vocabulary);

// Version, CPU, threads, kernels, repeats and read bandwidth in GB/s.
Report machine_json(const BenchOptions& options, const ThreadPool& pool, const std::string& kernels,
                    double bandwidth);
std::string machine_text(const Report& report);

// The same with the model and the seconds that loading it took.
Report model_json(const BenchOptions& options, const ThreadPool& pool, const std::string& kernels,
                  double load_seconds, double bandwidth);
std::string model_text(const Report& report);

uint64_t peak_memory_bytes();  // of this process so far

// Time and bytes a token of each kind of step; `bandwidth` in GB/s.
Report steps_json(const std::vector<StepCost>& costs, int64_t tokens, double bandwidth);
std::string steps_text(const Report& steps);

// Speed by the length of the prompt.
Report prefill_json(const std::vector<PrefillSpeed>& prefill, double bandwidth);
std::string prefill_text(const Report& prefill);
std::string prefill_steps_text(const Report& prefill);
ChartPanel prefill_chart(const Report& prefill);

ChartPoint chart_point(double x, const Report& spread);  // of {median, slowest, fastest}

// Cells "1234.56", "1200.00", "1250.00" of {median, slowest, fastest}.
std::vector<std::string> spread_cells(const Report& spread);
std::string percent_text(const Report& share);

}  // namespace weir::cli
