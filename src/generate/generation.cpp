#include "generate/generation.h"

#include "base/check.h"

namespace weir {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kStopString:
      return "stop-string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kRepetition:
      return "repetition";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  WEIR_CHECK(false);
}

}  // namespace weir
