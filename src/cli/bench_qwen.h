// What the bench of an autoregressive model measures, and how it is reported.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/bench.h"

namespace weir::cli {

struct DecodeSpeed {
  int64_t depth = 0;
  int64_t computed = 0;  // tokens of it that went through the model; the rest repeats their keys and values
  Sample speed;
  std::vector<StepCost> steps;
  uint64_t bytes = 0;  // of a token, halfway
};

// A prompt and the tokens decoded behind it.
struct AnswerTime {
  int64_t prompt = 0;
  Sample seconds;
};

struct QwenSpeeds {
  std::vector<PrefillSpeed> prefill;
  std::vector<DecodeSpeed> decode;
  std::vector<AnswerTime> answers;
};

Report qwen_report(Report machine, const BenchOptions& options, const QwenSpeeds& speeds);
std::string qwen_text(const Report& report);
std::vector<ChartPanel> qwen_charts(const Report& report);

}  // namespace weir::cli
