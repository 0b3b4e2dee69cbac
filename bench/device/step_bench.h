// Times one kind of step over all layers of a model: every layer has its own weights, so nothing comes from
// the cache, and the time is what a token or a chunk spends on that kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/qwen/model.h"

namespace weir::bench {

struct StepTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;  // median of all calls together
  uint64_t bytes = 0;  // of all calls: weights, state, cache; for many rows each weight once
};

// `state` is a sequence whose pages reach `rows` beyond its position. Its contents change.
std::vector<StepTime> time_steps(qwen::Model& model, SequenceState& state, int64_t rows, int repeats);

double median(std::vector<double> values);

}  // namespace weir::bench
