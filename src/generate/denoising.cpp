#include "generate/denoising.h"

#include <fmt/format.h>

namespace weir {
namespace {

Error invalid(std::string message, std::string hint = "") {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint)};
}

Status in_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return Ok{};
  return invalid(fmt::format("{} is {}, but must be from {} to {}", name, value, least, most));
}

// Colder than that, logits of up to 30 overflow float32's exponent range long before they decide anything.
constexpr float kColdest = 0.01f;
constexpr float kHottest = 100;

Status check_temperature(const char* name, float value) {
  if (value >= kColdest && value <= kHottest) return Ok{};
  return invalid(fmt::format("{} is {}, but must be from {} to {}", name, value, kColdest, kHottest));
}

constexpr double kMost = 1e6;

Status validate_acceptance(const Acceptance& acceptance) {
  if (const auto* bound = std::get_if<EntropyBound>(&acceptance)) {
    return in_range("entropy_bound", static_cast<double>(bound->bound), 0, kMost);
  }
  const auto& threshold = std::get<ConfidenceThreshold>(acceptance);
  WEIR_RETURN_IF_ERROR(in_range("the high confidence threshold", static_cast<double>(threshold.high), 0, 1));
  WEIR_RETURN_IF_ERROR(in_range("the low confidence threshold", static_cast<double>(threshold.low), 0, 1));
  return in_range("the steps of the high threshold", static_cast<double>(threshold.high_steps), 0, kMost);
}

Status validate_reference(const Denoising& d) {
  WEIR_RETURN_IF_ERROR(in_range("max_denoising_steps", static_cast<double>(d.steps), 1, kMost));
  WEIR_RETURN_IF_ERROR(check_temperature("t_min", d.t_min));
  WEIR_RETURN_IF_ERROR(check_temperature("t_max", d.t_max));
  WEIR_RETURN_IF_ERROR(in_range("stability_threshold", static_cast<double>(d.stability), 0, kMost));
  WEIR_RETURN_IF_ERROR(in_range("confidence_threshold", static_cast<double>(d.confidence), 0, kMost));
  return validate_acceptance(d.acceptance);
}

}  // namespace

Status validate(const Denoising& d) {
  WEIR_RETURN_IF_ERROR(validate_reference(d));
  if (d.soft_tokens != kAllTokens) {
    WEIR_RETURN_IF_ERROR(
        in_range("tokens of self-conditioning", static_cast<double>(d.soft_tokens), 1, kMaxSoftTokens));
  }
  if (d.freezing)
    WEIR_RETURN_IF_ERROR(in_range("freeze after", static_cast<double>(d.freezing->after), 1, kMost));
  if (d.cap) WEIR_RETURN_IF_ERROR(in_range("the step cap", static_cast<double>(d.cap->steps), 2, kMost));
  if (d.gap_stop)
    WEIR_RETURN_IF_ERROR(in_range("the gap to stop at", static_cast<double>(d.gap_stop->gap), 0, 1));
  if (d.causal_check) {
    WEIR_RETURN_IF_ERROR(
        in_range("the causal check's probability", static_cast<double>(d.causal_check->sure), 0, 1));
  }
  if (d.repeat_guard != 0) {
    WEIR_RETURN_IF_ERROR(in_range("the repeat guard", static_cast<double>(d.repeat_guard), 2, kMost));
  }
  if (!d.compaction) return Ok{};
  if (!d.freezing) return invalid("compacted passes need frozen positions", "freeze accepted positions too");
  WEIR_RETURN_IF_ERROR(
      in_range("the share to refresh at", static_cast<double>(d.compaction->refresh_share), 0, 1));
  return in_range("the row bucket", static_cast<double>(d.compaction->bucket), 1, kKvPage);
}

}  // namespace weir
