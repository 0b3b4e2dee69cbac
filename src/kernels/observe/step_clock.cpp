#include "kernels/observe/step_clock.h"

#include <algorithm>
#include <chrono>

namespace weir {

double StepClock::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StepClock::stop(const char* name, uint64_t bytes, double start) {
  Status status = steps_.finish();
  const double elapsed = now() - start;
  if (!status.ok() && first_error_.ok()) first_error_ = std::move(status);

  auto cost = std::find_if(costs_.begin(), costs_.end(), [&](const StepCost& c) { return c.name == name; });
  if (cost == costs_.end()) cost = costs_.insert(costs_.end(), StepCost{name});
  ++cost->calls;
  cost->seconds += elapsed;
  cost->bytes += bytes;
}

std::vector<int32_t> StepClock::distinct_experts(Routing routing) {
  if (paused_) return {};
  std::vector<int32_t> experts(static_cast<size_t>(routing.rows * routing.slots));
  steps_.copy_out(experts.data(), routing.experts, experts.size() * sizeof(int32_t));
  std::sort(experts.begin(), experts.end());
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  return experts;
}

}  // namespace weir
