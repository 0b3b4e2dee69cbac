// Flags of block diffusion: the reference sampler's settings, and what may be done faster than it, one flag
// each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/json_report.h"
#include "generate/denoising.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weir::cli {

class DenoisingOptions {
 public:
  void add(CLI::App& command);

  // `defaults` with the given flags put over them. Errors: kInvalidArgument.
  Result<Denoising> over(Denoising defaults) const;

  // The first flag that was given, as it is spelled; empty when none was.
  std::string given() const;

 private:
  Result<Acceptance> acceptance(Acceptance from_model) const;
  Status check_companions() const;

  std::vector<const CLI::Option*> all_;

  std::optional<int64_t> steps_, stable_steps_;
  std::optional<float> t_max_, t_min_, entropy_bound_, stop_entropy_;

  std::optional<int64_t> soft_top_k_, freeze_, row_bucket_, step_cap_, repeat_guard_, late_after_;
  std::optional<float> accept_probability_, late_probability_, refresh_share_, gap_stop_, causal_check_;
  bool greedy_accept_ = false, compact_ = false, thaw_ = false, flush_ = false, repair_ = false;
  bool answer_stop_ = false, tail_drop_ = false;
};

// All settings, for reports.
Report denoising_json(const Denoising& denoising);

}  // namespace weir::cli
