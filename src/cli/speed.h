// What an answer cost, for --stats.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/bandwidth.h"
#include "cli/json_report.h"
#include "generate/generation.h"

namespace weir::cli {

struct Speed {
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;
  double first_token_ms = 0;
  double bytes_per_token = 0;  // that decoding must move at least
  double gigabytes_per_second = 0;
  double measured_gigabytes_per_second = 0;  // of this machine; 0: not measured
  double share = 0;                          // of the measured bandwidth; 0: not measured
};

// Decoding is what follows the first token: zeros for an answer of one token.
Speed speed_of(const GenerationStatistics& statistics, const Bandwidth& machine);

std::string speed_text(const Speed& speed, const GenerationStatistics& statistics);
Report speed_json(const Speed& speed);

}  // namespace weir::cli
