// Adds up what each kind of step of a pass cost.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/steps.h"

namespace weir {

// Sums over the calls of one kind of step. `bytes` are those that any implementation must move: the weights
// that are touched, states read and written, keys and values read, activations read and written.
struct StepCost {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  uint64_t bytes = 0;
};

class StepClock {
 public:
  // `steps` outlive this.
  explicit StepClock(Steps& steps) : steps_(steps) {}

  // In the order in which the kinds first occurred.
  const std::vector<StepCost>& costs() const { return costs_; }
  void reset() { costs_.clear(); }

  // While it is paused, steps run unmeasured and nobody waits for them.
  void pause(bool paused) { paused_ = paused; }

  // Runs `step` and waits for it; the time covers both.
  template <class Step>
  void time(const char* name, uint64_t bytes, const Step& step) {
    if (paused_) return step();
    const double start = now();
    step();
    stop(name, bytes, start);
  }

  // Experts that any row goes to; none while the clock is paused.
  std::vector<int32_t> distinct_experts(Routing routing);

  // The first error that waiting for a step has brought, which is then forgotten.
  Status take_error() { return std::exchange(first_error_, Status{}); }

 private:
  static double now();
  void stop(const char* name, uint64_t bytes, double start);

  Steps& steps_;
  std::vector<StepCost> costs_;
  bool paused_ = false;
  Status first_error_;
};

}  // namespace weir
