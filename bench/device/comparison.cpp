#include "device/comparison.h"

#include <algorithm>
#include <mutex>

#include "kernels/reference/reference_steps.h"

namespace weir::bench {
namespace {

std::mutex gpu;  // the reference runs on many threads, the GPU's steps one at a time

}  // namespace

void compare(Report& report, const std::string& name, Steps& cuda,
             const std::function<Outcome(const Side&)>& step, std::span<const int64_t> cols,
             std::span<const double> bounds) {
  const auto reference = make_reference_steps();
  const Outcome expected = step({*reference});
  Outcome found;
  {
    const std::lock_guard lock(gpu);
    found = step({cuda});
    if (const Status status = cuda.finish(); !status.ok()) return report.fail(name, status.error().message);
  }
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, worst_row_error(found[i], expected[i], cols[i]) / bounds[i]);
  }
  report.add(name, worst * bounds[0], bounds[0]);
}

}  // namespace weir::bench
